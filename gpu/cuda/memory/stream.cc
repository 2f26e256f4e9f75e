#include "gpu/cuda/memory/stream.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <thread>

#include "gpu/cuda/memory/error.h"

namespace reprise::gpu::cuda {
namespace {

// Polling time. Waking a sleeper takes tens of microseconds, which would follow many decode steps.
constexpr auto kLookFor = std::chrono::milliseconds(5);

}  // namespace

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
  const auto until = std::chrono::steady_clock::now() + kLookFor;
  do {
    const cudaError_t state = cudaEventQuery(done_);
    if (state != cudaErrorNotReady) return check(state, "waiting for the GPU");
    cudaGetLastError();  // clears cudaErrorNotReady, which the runtime records too
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
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

void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying on the GPU");
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
