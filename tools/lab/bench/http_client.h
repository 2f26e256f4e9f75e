#pragma once
// A minimal HTTP client on a socket, for tests that check and send exact bytes. Reads time out after ten
// seconds.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace reprise::protocol {

struct ClientResponse {
  int status = 0;
  std::string head{};  // with the empty line after it
  std::string body{};  // chunks joined
  bool whole = false;

  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool connected() const { return connected_; }
  int socket() const { return socket_; }
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  void shut_down_sending() { ::shutdown(socket_, SHUT_WR); }

  /// Reads until `text` has arrived; returns false if the connection ends first.
  bool read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!read_more()) return false;
    }
    return true;
  }
  std::string read_all() {
    while (read_more()) {
    }
    return std::exchange(buffer_, {});
  }
  const std::string& unread() const { return buffer_; }

  ClientResponse read_response(bool has_body = true) {
    ClientResponse response;
    if (!read_until("\r\n\r\n")) return response;
    response.head = take(buffer_.find("\r\n\r\n") + 4);
    response.status = std::atoi(response.head.c_str() + 9);
    if (!has_body || response.status == 204 || response.status == 100) {
      response.whole = true;
    } else if (response.has("Transfer-Encoding: chunked")) {
      response.whole = read_chunks(response.body);
    } else if (const std::size_t at = response.head.find("Content-Length: "); at != std::string::npos) {
      const auto length = static_cast<std::size_t>(std::atol(response.head.c_str() + at + 16));
      while (buffer_.size() < length && read_more()) {
      }
      response.whole = buffer_.size() >= length;
      response.body = take(std::min(length, buffer_.size()));
    } else {
      response.body = read_all();
      response.whole = true;
    }
    return response;
  }

  ClientResponse get(const std::string& path, const std::string& headers = {}) {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
    return read_response();
  }
  ClientResponse post(const std::string& path, const std::string& body, const std::string& headers = {}) {
    send(post_text(path, body, headers));
    return read_response();
  }
  static std::string post_text(const std::string& path, const std::string& body,
                               const std::string& headers = {}) {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

 private:
  bool read_more() {
    char bytes[16384];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }
  std::string take(std::size_t count) {
    std::string taken = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return taken;
  }
  bool read_chunks(std::string& body) {
    while (true) {
      if (!read_until("\r\n")) return false;
      const std::size_t length = std::strtoul(buffer_.c_str(), nullptr, 16);
      take(buffer_.find("\r\n") + 2);
      while (buffer_.size() < length + 2) {
        if (!read_more()) {
          body += buffer_;
          return false;
        }
      }
      body += take(length);
      take(2);
      if (length == 0) return true;
    }
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace reprise::protocol
