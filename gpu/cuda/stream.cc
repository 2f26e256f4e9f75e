#include "gpu/cuda/stream.h"

#include <cuda_runtime_api.h>

#include "gpu/cuda/error.h"

namespace reprise::gpu::cuda {

Stream::Stream(Priority priority) {
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "the range of stream priorities");
  check(cudaStreamCreateWithPriority(&handle_, cudaStreamNonBlocking,
                                     priority == Priority::kHigh ? highest : lowest),
        "making a stream");
  check(cudaEventCreateWithFlags(&done_, cudaEventBlockingSync | cudaEventDisableTiming), "making an event");
}

Stream::~Stream() {
  cudaEventDestroy(done_);
  cudaStreamDestroy(handle_);
}

void Stream::wait() {
  check(cudaEventRecord(done_, handle_), "recording an event");
  check(cudaEventSynchronize(done_), "waiting for the GPU");
}

Stopwatch::Stopwatch() {
  check(cudaEventCreateWithFlags(&begin_, cudaEventBlockingSync), "making an event");
  check(cudaEventCreateWithFlags(&end_, cudaEventBlockingSync), "making an event");
}

Stopwatch::~Stopwatch() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
}

void Stopwatch::start(StreamHandle stream) {
  check(cudaEventRecord(begin_, stream), "recording an event");
}

void Stopwatch::stop(StreamHandle stream) {
  check(cudaEventRecord(end_, stream), "recording an event");
}

double Stopwatch::milliseconds() {
  check(cudaEventSynchronize(end_), "waiting for the GPU");
  float elapsed = 0;
  check(cudaEventElapsedTime(&elapsed, begin_, end_), "reading an event");
  return elapsed;
}

DeviceBytes::DeviceBytes(std::size_t size) : size_(size) {
  if (size > 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), size), "cudaMalloc");
}

DeviceBytes::~DeviceBytes() {
  if (data_ != nullptr) cudaFree(data_);
}

PinnedBytes::PinnedBytes(std::size_t size) : size_(size) {
  if (size > 0) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&data_), size, cudaHostAllocDefault), "cudaHostAlloc");
  }
}

PinnedBytes::~PinnedBytes() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

void copy_to_device(std::byte* to, const void* from, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying to the GPU");
}

void copy_to_host(void* to, const std::byte* from, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copying from the GPU");
}

void fill(std::byte* to, int value, std::size_t bytes, StreamHandle stream) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, value, bytes, stream), "filling memory of the GPU");
}

void use_device(int index) {
  check(cudaSetDevice(index), "choosing a GPU");
}

}  // namespace reprise::gpu::cuda
