#pragma once
// Redis servers for tests: a real one, if installed, and one that misbehaves on demand.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace reprise::test {

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Returns a socket bound to a free port; connections are refused until it listens.
inline int bind_anywhere(std::uint16_t& port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::abort();
  }
  port = ntohs(address.sin_port);
  return socket;
}
inline int listen_anywhere(std::uint16_t& port) {
  const int socket = bind_anywhere(port);
  if (::listen(socket, 64) != 0) std::abort();
  return socket;
}

/// redis-server on a free port, without files; killed by the destructor, or when the test dies.
class RedisServer {
 public:
  static bool is_installed() { return std::system("command -v redis-server >/dev/null 2>&1") == 0; }

  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    for (int tries = 0; process_ < 0 && tries < 20; ++tries) {  // another process may take the port first
      ::close(bind_anywhere(port_));
      start();
    }
  }
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::uint16_t port() const { return port_; }

  /// Starts an empty server on the same port. It does not run if the port is taken, or if it does not answer
  /// within 20 s.
  void start() {
    std::vector<std::string> words = {"redis-server",
                                      "--port",
                                      std::to_string(port_),
                                      "--bind",
                                      "127.0.0.1",
                                      "--save",
                                      "",
                                      "--appendonly",
                                      "no",
                                      "--dir",
                                      "/tmp",
                                      "--loglevel",
                                      "warning",
                                      "--logfile",
                                      "/dev/null"};
    words.insert(words.end(), options_.begin(), options_.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    for (int tries = 0; tries < 2000; ++tries) {
      if (::waitpid(process_, nullptr, WNOHANG) != 0) {
        process_ = -1;
        return;
      }
      if (answers()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop();
  }
  void stop() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  /// Returns true if this process answers on the port: with its process ID, or by asking for a password.
  bool answers() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval time{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    sockaddr_in address = loopback(port_);
    constexpr std::string_view kQuestion = "INFO server\r\n";
    std::string answer;
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        ::send(socket, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) > 0) {
      answer.resize(4096);
      const ssize_t got = ::recv(socket, answer.data(), answer.size(), 0);
      answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    ::close(socket);
    return answer.starts_with("-NOAUTH") ||
           answer.find("process_id:" + std::to_string(process_) + "\r") != std::string::npos;
  }

  std::vector<std::string> options_;
  std::uint16_t port_ = 0;
  pid_t process_ = -1;
};

/// Accepts connections and treats them all in one manner.
class FakeRedis {
 public:
  enum class Manner {
    kSilent,   // reads, and never answers
    kClosing,  // closes when something comes
    kGarbage,  // sends an invalid answer
    kEndless,  // sends an answer above the size limit
  };
  explicit FakeRedis(Manner manner) : manner_(manner), socket_(listen_anywhere(port_)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeRedis() {
    stopping_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    for (std::thread& one : connections_) one.join();
    ::close(socket_);
  }
  std::uint16_t port() const { return port_; }
  int connections() const { return count_; }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      ++count_;
      connections_.emplace_back([this, client] { talk(client); });
    }
  }
  void talk(int client) {
    const timeval time{.tv_sec = 0, .tv_usec = 20'000};
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    std::string buffer(64 << 10, 'x');
    while (!stopping_) {
      const ssize_t got = ::recv(client, buffer.data(), buffer.size(), 0);
      if (got == 0) break;
      if (got < 0) continue;
      if (manner_ == Manner::kClosing) break;
      if (manner_ == Manner::kGarbage) say(client, "hello, who is there?\r\n");
      if (manner_ == Manner::kEndless) {
        say(client, "$536870912\r\n");
        while (!stopping_ && say(client, buffer)) {
        }
        break;
      }
    }
    ::close(client);
  }
  bool say(int client, std::string_view text) const {
    while (!text.empty() && !stopping_) {
      const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
      if (sent > 0) text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const Manner manner_;
  std::uint16_t port_ = 0;
  const int socket_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> count_{0};
  std::vector<std::thread> connections_;  // owned by the serving thread until it ends
  std::thread thread_;
};

}  // namespace reprise::test
