#include "protocol/snapshots/socket_calls.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace reprise::protocol::snapshots {
namespace {

using Addresses = std::shared_ptr<addrinfo>;

/// A lookup shared by the thread that resolves and the one that waits.
struct Lookup {
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;  // guarded by mutex, as the members below
  int error = 0;           // of getaddrinfo
  Addresses addresses{};
};

int resolve(const std::string& host, std::uint16_t port, int flags, Addresses& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error == 0) found = Addresses(list, &::freeaddrinfo);
  return error;
}

Outcome<Addresses, std::string> resolve_until(const std::string& host, std::uint16_t port,
                                              SocketCalls::Deadline deadline) {
  Addresses found;
  if (resolve(host, port, AI_NUMERICHOST, found) == 0) return found;
  static std::atomic<int> running{0};  // relaxed: a count that orders nothing
  if (running.fetch_add(1, std::memory_order_relaxed) >= SocketCalls::kMaxLookups) {
    running.fetch_sub(1, std::memory_order_relaxed);
    return std::string("the resolver does not answer");
  }
  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, host, port] {
      Addresses addresses;
      const int error = resolve(host, port, 0, addresses);
      running.fetch_sub(1, std::memory_order_relaxed);
      const std::lock_guard lock(lookup->mutex);
      lookup->has_ended = true;
      lookup->error = error;
      lookup->addresses = std::move(addresses);
      lookup->ended.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    running.fetch_sub(1, std::memory_order_relaxed);
    return std::string(error.what());
  }
  std::unique_lock lock(lookup->mutex);
  if (!lookup->ended.wait_until(lock, deadline, [&] { return lookup->has_ended; })) {
    return std::string("the resolver does not answer");
  }
  if (lookup->error != 0) return std::string(::gai_strerror(lookup->error));
  return lookup->addresses;
}

}  // namespace

const std::shared_ptr<SocketCalls>& SocketCalls::system() {
  static const auto calls = std::make_shared<SocketCalls>();
  return calls;
}

Outcome<int, std::string> SocketCalls::connect(const std::string& host, std::uint16_t port,
                                               Deadline deadline) {
  const auto addresses = resolve_until(host, port, deadline);
  if (!addresses.ok()) return addresses.error();
  int error = ENETUNREACH;
  for (const addrinfo* one = addresses->get(); one != nullptr; one = one->ai_next) {
    const int socket =
        ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol);
    if (socket < 0) {
      error = errno;
      continue;
    }
    error = ::connect(socket, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR) {
      error = wait(socket, POLLOUT, deadline);
      socklen_t size = sizeof error;
      if (error == 0 && ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0) {
      const int on = 1;  // a command is not held back for the next
      static_cast<void>(::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
      return socket;
    }
    ::close(socket);
    if (error == ETIMEDOUT && std::chrono::steady_clock::now() >= deadline) break;
  }
  return std::string(std::strerror(error));
}

void SocketCalls::close(int socket) {
  ::close(socket);
}

ssize_t SocketCalls::send(int socket, std::span<const char> bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t SocketCalls::receive(int socket, std::span<char> to) {
  return ::recv(socket, to.data(), to.size(), MSG_DONTWAIT);
}

int SocketCalls::wait(int socket, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) return ETIMEDOUT;
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 3'600'000)) + 1);
    if (ready > 0) return 0;
    if (ready < 0 && errno != EINTR) return errno;
  }
}

}  // namespace reprise::protocol::snapshots
