# Debian packages (`make packages`): what is installed, and into which of three packages. deploy/packages/README.md says why so.
include(GNUInstallDirs)

# The layout of the bundle in a directory of its own: programs find one another beside themselves, and the linker looks for
# nothing there.
set(tessera_private ${CMAKE_INSTALL_LIBDIR}/tessera)
if(CMAKE_LIBRARY_ARCHITECTURE AND NOT tessera_private MATCHES ${CMAKE_LIBRARY_ARCHITECTURE})
  set(tessera_private lib/${CMAKE_LIBRARY_ARCHITECTURE}/tessera)
endif()

set(TESSERA_PACKAGER "Tessera packagers <packages@tessera.invalid>" CACHE STRING "the Maintainer of the Debian packages")
set(TESSERA_PACKAGE_RELEASE "1" CACHE STRING "the Debian revision of the packages, without the distribution's name")
set(tessera_distribution "unknown")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release tessera_name REGEX "^ID=")
  file(STRINGS /etc/os-release tessera_number REGEX "^VERSION_ID=")
  string(REGEX REPLACE "(VERSION_)?ID=|\"" "" tessera_distribution "${tessera_name}${tessera_number}")
endif()

# tessera_package(PACKAGE PROGRAMS target... [LINKED name...]): programs in the private directory; those of LINKED are in PATH.
function(tessera_package package)
  cmake_parse_arguments(arg "" "" "PROGRAMS;LINKED" ${ARGN})
  install(TARGETS ${arg_PROGRAMS} RUNTIME DESTINATION ${tessera_private}/bin COMPONENT ${package}
    LIBRARY DESTINATION ${tessera_private}/lib COMPONENT ${package} NAMELINK_SKIP)
  foreach(name ${arg_LINKED})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packages/links)
    file(CREATE_LINK ../${tessera_private}/bin/${name} ${CMAKE_BINARY_DIR}/packages/links/${name} SYMBOLIC)
    install(FILES ${CMAKE_BINARY_DIR}/packages/links/${name} DESTINATION bin COMPONENT ${package})
  endforeach()
  # Written by deploy/packages/make-files: manual pages, completion, copyright, changelog.
  install(DIRECTORY ${CMAKE_BINARY_DIR}/packages/files/${package}/ DESTINATION . COMPONENT ${package})
endfunction()

if(TESSERA_CONTROL_API AND TARGET tessera_emulator AND NOT TESSERA_SANITIZE)
  tessera_package(tessera PROGRAMS tessera tessera_agent tessera_lease LINKED tessera tessera-agent)
  install(TARGETS cuda_stub nvml_shim LIBRARY DESTINATION ${tessera_private}/lib/client COMPONENT tessera)
  install(PROGRAMS deploy/slurm/prolog DESTINATION ${tessera_private}/slurm COMPONENT tessera)
  tessera_package(tessera-server PROGRAMS tesserad tessera_gateway tessera_broker tessera_node tessera_replay tessera_emulator
    LINKED tesserad tessera-gateway tessera-node tessera-replay)
  tessera_package(tessera-placer PROGRAMS tessera_placer tessera_admin LINKED tessera-placer)

  install(FILES deploy/systemd/tesserad.service deploy/systemd/tessera-node.service DESTINATION lib/systemd/system COMPONENT tessera-server)
  install(FILES deploy/systemd/user-tesserad.service DESTINATION lib/systemd/user RENAME tesserad.service COMPONENT tessera-server)
  install(FILES deploy/systemd/tessera-placer.service DESTINATION lib/systemd/system COMPONENT tessera-placer)

  # dpkg keeps what an administrator has changed there.
  install(FILES deploy/packages/tesserad.toml DESTINATION /etc/tessera COMPONENT tessera-server)
  file(WRITE ${CMAKE_BINARY_DIR}/packages/control/conffiles "/etc/tessera/tesserad.toml\n")
  file(CHMOD ${CMAKE_BINARY_DIR}/packages/control/conffiles PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  set(CPACK_DEBIAN_TESSERA-SERVER_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/packages/control/conffiles)

  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME tessera)
  set(CPACK_PACKAGE_VENDOR Tessera)
  set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_ALL tessera tessera-server tessera-placer)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_RELEASE "${TESSERA_PACKAGE_RELEASE}~${tessera_distribution}")
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${TESSERA_PACKAGER})
  set(CPACK_DEBIAN_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(same_release "tessera (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
  foreach(package ${CPACK_COMPONENTS_ALL})
    string(TOUPPER ${package} key)
    set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package})
  endforeach()
  # UCX is loaded when a ucx:// address is used.
  set(CPACK_DEBIAN_TESSERA_PACKAGE_SUGGESTS "tessera-server, tessera-placer, libucx0")
  set(CPACK_DEBIAN_TESSERA-SERVER_PACKAGE_DEPENDS ${same_release})
  set(CPACK_DEBIAN_TESSERA-SERVER_PACKAGE_RECOMMENDS tessera-placer)
  set(CPACK_DEBIAN_TESSERA-SERVER_PACKAGE_SUGGESTS libucx0)
  set(CPACK_DEBIAN_TESSERA-PLACER_PACKAGE_DEPENDS ${same_release})
  set(CPACK_COMPONENT_TESSERA_DESCRIPTION "GPU of another host for unmodified CUDA programs: command
The tessera command starts a program with a CUDA driver library that carries
its calls to a server: another process of this host, or a tesserad of another.
The library lies in a directory where no program finds it by chance.")
  set(CPACK_COMPONENT_TESSERA-SERVER_DESCRIPTION "GPU of another host for unmodified CUDA programs: server
tesserad carries out the GPU work of programs that came by tessera, with
NVIDIA's driver or a GPU in software, and shares its GPUs among them.
tessera-gateway lets other hosts in, tessera-node joins a pool.")
  set(CPACK_COMPONENT_TESSERA-PLACER_DESCRIPTION "GPU of another host for unmodified CUDA programs: pools
tessera-placer finds GPUs of several servers for jobs that name none. The
commands of tessera that administer vGPUs and pools are carried out by a
program in this package.")
  include(CPack)
  add_custom_target(package_files
    COMMAND ${CMAKE_SOURCE_DIR}/deploy/packages/make-files ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/packages/files
      "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}" "${TESSERA_PACKAGER}"
    DEPENDS product VERBATIM)
endif()
