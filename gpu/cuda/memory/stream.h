#pragma once
// RAII types for streams, events and memory of a GPU, without CUDA headers.
//
// Threading: an object is used by one thread at a time. Destructors ignore errors: the call before has
// reported them.

#include <cstddef>
#include <utility>

struct CUstream_st;
struct CUevent_st;

namespace reprise::gpu::cuda {

using StreamHandle = CUstream_st*;

class Stream {
 public:
  enum class Priority {
    kNormal,
    kHigh
  };  // kHigh: its kernels are scheduled before pending ones of other streams

  explicit Stream(Priority priority = Priority::kNormal);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }
  /// Blocks until all enqueued work is done: polls for some milliseconds, then sleeps. Throws errors of that
  /// work.
  void wait();

 private:
  StreamHandle handle_ = nullptr;
  CUevent_st* done_ = nullptr;  // event that a sleeping waiter uses
};

/// Measures time on the GPU between two points of a stream.
class Stopwatch {
 public:
  Stopwatch();
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(StreamHandle stream);
  void stop(StreamHandle stream);
  /// Blocks until stop() is reached.
  double milliseconds();

 private:
  CUevent_st* begin_ = nullptr;
  CUevent_st* end_ = nullptr;
};

/// Uninitialized memory of the current GPU. The constructor throws std::bad_alloc.
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

/// Pinned host memory, which the GPU accesses directly and asynchronous copies require.
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

/// Copies are ordered by the stream. A host side that is not pinned is read or written before the call
/// returns.
void copy_to_device(std::byte* to, const void* from, std::size_t bytes, StreamHandle stream);
void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream);
void copy_to_host(void* to, const std::byte* from, std::size_t bytes, StreamHandle stream);
void fill(std::byte* to, int value, std::size_t bytes, StreamHandle stream);

/// Selects the GPU for this thread's calls.
void use_device(int index);

}  // namespace reprise::gpu::cuda
