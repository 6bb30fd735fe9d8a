# Compiler settings common to all targets, and the three functions every directory uses to declare what it builds.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(TESSERA_SANITIZE "" CACHE STRING "sanitizers for the whole build, as -fsanitize= takes them")
option(TESSERA_FUZZ "build the targets of tests/fuzz for libFuzzer (clang)" OFF)
# gRPC is no part of what the thread sanitizer sees, and its programs would be told of races that are none.
if(TESSERA_SANITIZE MATCHES "thread" OR TESSERA_FUZZ)
  set(TESSERA_CONTROL_API OFF)
else()
  set(TESSERA_CONTROL_API ON)
endif()
option(TESSERA_LINT "run clang-tidy and clang's thread-safety analysis with the build" OFF)

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE)
  # Paths below the source tree count as relative ones, so that all clones on a machine share what one of them has compiled.
  # The sloppiness is what ccache wants where headers are precompiled: it may not look for __TIME__ and macros in them.
  set(tessera_ccache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${TESSERA_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${tessera_ccache})
  set(CMAKE_C_COMPILER_LAUNCHER ${tessera_ccache})
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_library(tessera_settings INTERFACE)
target_include_directories(tessera_settings INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
# GCC 12 takes atomics behind pointers for objects of no size, and GCC 12 and 13 (Ubuntu 24.04) take a short string or a buffer of fmt for
# an array that is too small.
target_compile_options(tessera_settings INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds> -fno-omit-frame-pointer)
# What is deprecated of CUDA is served and tested as all else.
target_compile_definitions(tessera_settings INTERFACE TESSERA_VERSION="${PROJECT_VERSION}"
  SPDLOG_FMT_EXTERNAL CUDA_ENABLE_DEPRECATED)
# Functions and lines in backtraces, but no variables, most of which are optimised away: a quarter less to compile.
target_compile_options(tessera_settings INTERFACE $<$<CONFIG:RelWithDebInfo>:-g1>)
if(CMAKE_UNITY_BUILD)
  # What a file has for itself is no less its own where a file of several includes it.
  target_compile_options(tessera_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(TESSERA_SANITIZE)
  # Not `enum`: the driver's C enums take values that our cuda.h does not name, from programs built against a newer one. Not
  # what the address sanitizer finds as well: that, -Og and -g1 make it compile in half the time.
  target_compile_options(tessera_settings INTERFACE -fsanitize=${TESSERA_SANITIZE}
    -fno-sanitize=enum,vptr,null,object-size -fno-sanitize-recover=all $<IF:$<CXX_COMPILER_ID:GNU>,-Og,-O1> -g1)
  target_link_options(tessera_settings INTERFACE -fsanitize=${TESSERA_SANITIZE})
  if(TESSERA_SANITIZE MATCHES "thread")
    target_compile_options(tessera_settings INTERFACE -Wno-tsan)
  endif()
endif()
if(TESSERA_FUZZ)
  target_compile_options(tessera_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TESSERA_LINT)
  target_compile_options(tessera_settings INTERFACE -Wthread-safety -Werror=thread-safety)
  find_program(TESSERA_CLANG_TIDY NAMES clang-tidy-16 REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${TESSERA_CLANG_TIDY} --quiet)
endif()

find_package(Threads REQUIRED)

# For what no benchmark measures: GoogleTest's macros at -O2 take two thirds longer to compile.
set(tessera_light $<IF:$<BOOL:${CMAKE_UNITY_BUILD}>,-Og,-O1>)

# A grouped build (CMAKE_UNITY_BUILD in CMakePresets.json) also compiles GoogleTest's headers once for all tests, and links these with gold, in
# half the time of the usual linker. docs/decisions/tests-tidy-compiled-in-groups.md has figures.
if(CMAKE_UNITY_BUILD)
  find_program(TESSERA_GOLD ld.gold)
  find_package(GTest REQUIRED)
  add_library(precompiled_for_tests OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
  target_compile_options(precompiled_for_tests PRIVATE -fPIE ${tessera_light})
  target_link_libraries(precompiled_for_tests PRIVATE tessera_settings GTest::gmock Threads::Threads)
  target_precompile_headers(precompiled_for_tests PRIVATE <fmt/core.h> <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <string>
    <thread> <vector> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# tessera_library(NAME [SOURCES ...] [DEPENDS ...]): a static library of the project, built where something built needs it.
function(tessera_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC tessera_settings Threads::Threads ${arg_DEPENDS})
endfunction()

# tessera_program(NAME [SOURCES ...] [DEPENDS ...]): a program of the project, in ${CMAKE_BINARY_DIR}/bin.
function(tessera_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE tessera_settings Threads::Threads ${arg_DEPENDS})
endfunction()

# The C++ library within the target, not beside it: what it depends on in others' processes is less, and the loader has half as
# much to do where a program starts.
function(tessera_own_cxx_library name)
  if(NOT TESSERA_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# Built and run under the sanitizers by continuous integration, with the label `sanitize`: what has threads, and under the
# address and undefined-behaviour sanitizers also what reads bytes of others.
set(TESSERA_SANITIZED_TESTS base_test ring_test channel_test work_crew_test memory_test link_test lost_link_test tls_link_test tls_records_test carriage_test keeper_test worker_core_test stub_core_test client_memory_test emulator_driver_test
  emulator_ptx_test emulator_device_test stream_test graph_test graph_node_test graph_copy_test poll_test host_copy_test launch_test delivery_test worker_gate_test
  read_at_call_test small_source_test mirror_watch_test watched_events_test two_servers_test image_keeper_test reservation_test reservation_in_window_test reserved_ranges_test
  device_graph_test device_graph_servers_test host_allocations_test host_pools_test broker_process_test gated_calls_test vgpu_api_test worker_memory_test node_parts_test placer_core_test placer_deaths_test)
if(NOT TESSERA_SANITIZE MATCHES "thread")
  list(APPEND TESSERA_SANITIZED_TESTS strangers_test image_directory_test wire_test message_test capture_test code_image_test
    no_silent_success_test fuzz_control_test fuzz_messages_test fuzz_relay_test fuzz_tls_test fuzz_tls_peer_test fuzz_client_image_test fuzz_code_image_test
    fuzz_ptx_test fuzz_worker_test fuzz_replies_test simulate_test gate_pages_test broker_test vgpu_file_test metrics_text_test usage_test usage_front_test control_server_test ticket_test fuzz_ticket_test store_test
    grant_ledger_test grants_test node_core_test node_line_test fuzz_broker_pages_test fuzz_broker_line_test
    fuzz_pool_messages_test fuzz_node_messages_test fuzz_tls_front_test)
endif()
add_custom_target(sanitized_tests)
option(TESSERA_SANITIZED_APART "build of these tests none but what is named: they run under the sanitizers" OFF)
# So that a process of the product that a sanitizer ends can be told from one that failed.
set(TESSERA_SANITIZED_SYSTEM_ENVIRONMENT ASAN_OPTIONS=exitcode=86 UBSAN_OPTIONS=exitcode=86
  "TSAN_OPTIONS=exitcode=86 halt_on_error=1 report_thread_leaks=0 atexit_sleep_ms=0")

# For how many halves of a processor a test counts (its PROCESSORS): CTest runs tests of two halves for each processor at a time
# (TEST_JOBS of the Makefile). One that mostly waits; what most are; one whose threads or processes compute beside each other; one that
# measures shares or time, which is alone on two processors.
set(TESSERA_TEST_WAITS 1)
set(TESSERA_TEST_USUAL 2)
set(TESSERA_TEST_COMPUTES 3)
set(TESSERA_TEST_ALONE 4)
if(TESSERA_SANITIZE)
  set(TESSERA_TEST_WAITS 2)  # what it waits for computes more
endif()

# tessera_test(NAME LABELS l... [SOURCES ...] [DEPENDS ...] [TIMEOUT s]): a GoogleTest program registered with CTest.
function(tessera_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPENDS;ENVIRONMENT" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_options(${name} PRIVATE ${tessera_light})
  if(TESSERA_SANITIZE MATCHES "address")
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/sanitizer_settings.cc)
  endif()
  target_link_libraries(${name} PRIVATE tessera_settings ${arg_DEPENDS} GTest::gmock GTest::gtest_main Threads::Threads)
  if(CMAKE_UNITY_BUILD)
    target_precompile_headers(${name} REUSE_FROM precompiled_for_tests)
    if(TESSERA_GOLD)
      target_link_options(${name} PRIVATE -fuse-ld=gold)
    endif()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(name IN_LIST TESSERA_SANITIZED_TESTS)
    list(APPEND arg_LABELS sanitize)
    add_dependencies(sanitized_tests ${name})
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ${TESSERA_SANITIZED_APART})
  endif()
  if(TESSERA_SANITIZE MATCHES "thread")
    list(APPEND arg_ENVIRONMENT TSAN_OPTIONS=report_thread_leaks=0)  # the stub's and the emulator's threads end with the process
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${arg_ENVIRONMENT}" PROCESSORS ${TESSERA_TEST_USUAL})
endfunction()
