# Finds the CUDA toolkit's headers (cuda.h, cudaTypedefs.h, cudaProfiler.h of CUDA 13.0). No library of the toolkit is
# linked: the client library replaces libcuda.so.1 and the server loads the real one at run time.

if(NOT "$ENV{CUDA_HOME}" STREQUAL "" AND NOT EXISTS "$ENV{CUDA_HOME}/include/cudaTypedefs.h")
  message(FATAL_ERROR "CUDA_HOME is $ENV{CUDA_HOME}, and there is no include/cudaTypedefs.h: set it to a CUDA 13.0 toolkit, or unset it.")
endif()
find_path(TESSERA_CUDA_INCLUDE cuda.h HINTS $ENV{CUDA_HOME}/include /usr/local/cuda/include)
if(NOT TESSERA_CUDA_INCLUDE OR NOT EXISTS ${TESSERA_CUDA_INCLUDE}/cudaTypedefs.h)
  message(FATAL_ERROR "The headers of CUDA 13.0 (cuda.h, cudaTypedefs.h, cudaProfiler.h) were not found in "
    "$CUDA_HOME/include or /usr/local/cuda/include: install NVIDIA's CUDA 13.0 toolkit (the package cuda-driver-dev-13-0 "
    "and cuda-cudart-dev-13-0 suffice) or set CUDA_HOME to where it is.")
endif()
file(STRINGS ${TESSERA_CUDA_INCLUDE}/cuda.h tessera_cuda_version REGEX "^#define CUDA_VERSION ")
if(NOT tessera_cuda_version MATCHES "13000")
  message(FATAL_ERROR "${TESSERA_CUDA_INCLUDE}/cuda.h is not that of CUDA 13.0 (${tessera_cuda_version}): "
    "set CUDA_HOME to a CUDA 13.0 toolkit.")
endif()
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${TESSERA_CUDA_INCLUDE})

# nvcc compiles the examples and the CUDA test programs; without it those that ship as PTX still run.
find_program(TESSERA_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
