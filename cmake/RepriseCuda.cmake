# REPRISE_CUDA=AUTO|ON|OFF decides whether gpu/cuda is compiled; sets REPRISE_HAS_CUDA to the outcome.
# AUTO uses the toolkit when there is one that works, ON fails without it. No GPU is needed to compile.

set(REPRISE_CUDA AUTO CACHE STRING "Compile the CUDA device: AUTO, ON or OFF")
set_property(CACHE REPRISE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(REPRISE_HAS_CUDA OFF)
if(REPRISE_CUDA)
  # Set here because CMake versions older than the toolkit cannot guess an architecture that it still supports.
  set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures to compile for")

  if(NOT CMAKE_CUDA_COMPILER)
    find_program(REPRISE_NVCC nvcc HINTS "$ENV{CUDA_PATH}/bin" "$ENV{CUDA_HOME}/bin" PATHS /usr/local/cuda/bin)
    mark_as_advanced(REPRISE_NVCC)
    if(REPRISE_NVCC AND NOT DEFINED ENV{CUDACXX})
      set(ENV{CUDACXX} "${REPRISE_NVCC}")
    endif()
    if(REPRISE_CUDA STREQUAL "AUTO")
      set(ENV{CUDAARCHS} "${CMAKE_CUDA_ARCHITECTURES}")
      include(CheckLanguage)
      check_language(CUDA)
    endif()
  endif()

  if(CMAKE_CUDA_COMPILER OR NOT REPRISE_CUDA STREQUAL "AUTO")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and later take C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(REPRISE_HAS_CUDA ON)
  endif()
endif()

if(REPRISE_HAS_CUDA)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: not used (REPRISE_CUDA=${REPRISE_CUDA})")
endif()
