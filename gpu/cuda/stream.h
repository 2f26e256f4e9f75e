#pragma once
// Streams, events and memory of a GPU that end with their owner. No CUDA header is needed to use them.
//
// Threading: an object is used by one thread at a time. Destructors report nothing: what failed has been said
// by the call before.

#include <cstddef>
#include <utility>

struct CUstream_st;
struct CUevent_st;

namespace reprise::gpu::cuda {

using StreamHandle = CUstream_st*;

class Stream {
 public:
  enum class Priority { kNormal, kHigh };  // kHigh: its kernels start before others that wait

  explicit Stream(Priority priority = Priority::kNormal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }
  /// Until all that was put into it is done: looks for some milliseconds, then sleeps. Throws what went wrong there.
  void wait();

 private:
  StreamHandle handle_ = nullptr;
  CUevent_st* done_ = nullptr;  // a waiter sleeps on it
};

/// Measures time on the GPU.
class Stopwatch {
 public:
  Stopwatch();
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(StreamHandle stream);
  void stop(StreamHandle stream);
  /// Waits for the stop.
  double milliseconds();

 private:
  CUevent_st* begin_ = nullptr;
  CUevent_st* end_ = nullptr;
};

/// Memory of the current GPU, uninitialised. Throws std::bad_alloc.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(std::size_t size);
  DeviceBytes(DeviceBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBytes();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Host memory that the GPU reads and writes without a copy between: what transfers need to overlap with
/// work.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  explicit PinnedBytes(std::size_t size);
  PinnedBytes(PinnedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBytes& operator=(PinnedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PinnedBytes();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// In the order of the stream. A host side that is not pinned is copied before the call returns.
void copy_to_device(std::byte* to, const void* from, std::size_t bytes, StreamHandle stream);
/// Both on the GPU.
void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream);
void copy_to_host(void* to, const std::byte* from, std::size_t bytes, StreamHandle stream);
void fill(std::byte* to, int value, std::size_t bytes, StreamHandle stream);

/// The GPU that this thread's calls go to.
void use_device(int index);

}  // namespace reprise::gpu::cuda
