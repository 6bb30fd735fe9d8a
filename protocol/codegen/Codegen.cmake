# Runs generate.py at build time and names what it writes. After include():
#   TESSERA_GENERATED      ${CMAKE_BINARY_DIR}/generated
#   TESSERA_API_DOMAINS    the stems of protocol/spec/*.toml
#   generate_api           target that runs the generator; everything that includes generated headers depends on it
#                          through the interface library cuda_api
#   generated_sources()    what to compile of the generated files of one kind

set(TESSERA_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(codegen_dir ${CMAKE_SOURCE_DIR}/protocol/codegen)
set(spec_dir ${CMAKE_SOURCE_DIR}/protocol/spec)

find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
file(GLOB spec_files CONFIGURE_DEPENDS ${spec_dir}/*.toml)
file(GLOB codegen_files CONFIGURE_DEPENDS ${codegen_dir}/*.py)

set(TESSERA_API_DOMAINS "")
foreach(file IN LISTS spec_files)
  get_filename_component(domain ${file} NAME_WE)
  if(NOT domain STREQUAL "types")
    list(APPEND TESSERA_API_DOMAINS ${domain})
  endif()
endforeach()
set(TESSERA_API_DOMAINS ${TESSERA_API_DOMAINS} CACHE INTERNAL "the stems of protocol/spec/*.toml")

# generated_files(RESULT FOLDER EXTENSION): FOLDER/<domain>.EXTENSION for every domain.
function(generated_files result folder extension)
  set(files "")
  foreach(domain IN LISTS TESSERA_API_DOMAINS)
    list(APPEND files ${TESSERA_GENERATED}/${folder}/${domain}.${extension})
  endforeach()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

# generated_sources(RESULT FOLDER SUFFIX): files to compile that include FOLDER/<domain>SUFFIX.cc of eight domains each. The
# generated files are short: nearly all of their time goes into the headers that they have in common.
function(generated_sources result folder suffix)
  set(sources "")
  set(domains ${TESSERA_API_DOMAINS})
  while(domains)
    list(SUBLIST domains 0 8 group)
    list(REMOVE_ITEM domains ${group})
    list(TRANSFORM group REPLACE "(.+)" "#include \"generated/${folder}/\\1${suffix}.cc\"\n" OUTPUT_VARIABLE includes)
    list(JOIN includes "" text)
    list(GET group 0 first)
    set(source ${TESSERA_GENERATED}/together/${folder}/${first}_and_others${suffix}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
    list(APPEND sources ${source})
  endwhile()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

set(generated_outputs "")
foreach(folder IN ITEMS messages client server)
  foreach(extension IN ITEMS h cc)
    generated_files(files ${folder} ${extension})
    list(APPEND generated_outputs ${files})
  endforeach()
endforeach()
foreach(domain IN LISTS TESSERA_API_DOMAINS)
  list(APPEND generated_outputs ${TESSERA_GENERATED}/tests/${domain}_messages.cc
    ${TESSERA_GENERATED}/tests/${domain}_calls.cc)
endforeach()
foreach(name IN ITEMS client_custom.h server_custom.h server/dispatch.h server/dispatch.cc driver_table.h driver_names.h
        driver_names.cc exports.map client/graphics.cc client/proc_address_table.h client/proc_address_table.cc prototype_check.cc
        mock/recording_table.h mock/recording_table.cc
        messages/handle_errors.h spec_hash.h tests/all_messages.cc tests/all_calls.cc tests/all_work.cc
        tests/gated_calls.cc)
  list(APPEND generated_outputs ${TESSERA_GENERATED}/${name})
endforeach()

# A mistake in the spec fails here, before the long list of outputs.
add_custom_command(
  OUTPUT ${TESSERA_GENERATED}/checked
  COMMAND Python3::Interpreter ${codegen_dir}/generate.py --spec ${spec_dir} --check
  COMMAND ${CMAKE_COMMAND} -E touch ${TESSERA_GENERATED}/checked
  DEPENDS ${spec_files} ${spec_dir}/graphics.names ${spec_dir}/wire.lock ${codegen_files}
  COMMENT "Checking the spec of the forwarded API"
  VERBATIM)
# The generator leaves files alone whose content is the same; the stamp tells ninja that it ran.
add_custom_command(
  OUTPUT ${TESSERA_GENERATED}/stamp
  BYPRODUCTS ${generated_outputs}
  COMMAND Python3::Interpreter ${codegen_dir}/generate.py --spec ${spec_dir} --out ${TESSERA_GENERATED}
  COMMAND ${CMAKE_COMMAND} -E touch ${TESSERA_GENERATED}/stamp
  DEPENDS ${TESSERA_GENERATED}/checked
  COMMENT "Generating the forwarded API"
  VERBATIM)
add_custom_target(generate_api DEPENDS ${TESSERA_GENERATED}/stamp)

# cuda.h as everybody in client-stub and server sees it: all versions of all functions under their exported names, no
# macros that turn cuMemAlloc into cuMemAlloc_v2.
add_library(cuda_api INTERFACE)
target_link_libraries(cuda_api INTERFACE cuda_headers)
target_compile_definitions(cuda_api INTERFACE __CUDA_API_VERSION_INTERNAL=1)
target_include_directories(cuda_api INTERFACE ${CMAKE_BINARY_DIR})
add_dependencies(cuda_api generate_api)
