// A host program with its own event loop. Actors run on that loop, beside the host's handlers, and await Asio
// operations: an echo server and its client over loopback.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "runtime/interop/asio.h"
#include "runtime/interop/asio_executor.h"
#include "runtime/system.h"

using namespace reprise::runtime;
using namespace std::chrono_literals;
using boost::asio::buffer;
using boost::asio::ip::tcp;

namespace {

constexpr std::string_view kText = "hello, loop";

struct Serve {};

/// Echoes what one client writes. The buffer may be a member because actor and socket share a loop that one
/// thread runs.
class EchoServer : public Actor {
 public:
  using Accepts = Messages<Serve>;
  explicit EchoServer(tcp::acceptor acceptor) : acceptor_(std::move(acceptor)) {}

  Task<void> on(Serve) {
    auto accepting = acceptor_.async_accept(use_actor);
    Result<tcp::socket> socket = co_await accepting;
    while (socket) {
      auto reading = socket->async_read_some(buffer(bytes_), use_actor);
      const Result<std::size_t> count = co_await reading;
      if (!count) co_return;  // kEnded: the client has closed the connection
      auto writing = boost::asio::async_write(*socket, buffer(bytes_, *count), use_actor);
      const Result<std::size_t> written = co_await writing;
    }
  }

 private:
  tcp::acceptor acceptor_;
  std::array<char, 1024> bytes_{};
};

struct Talk {
  tcp::endpoint server;
};

class Client : public Actor {
 public:
  using Accepts = Messages<Talk>;
  Client(boost::asio::io_context& loop, std::string& heard) : socket_(loop), timer_(loop), heard_(heard) {}

  Task<void> on(Talk talk) {
    auto connecting = socket_.async_connect(talk.server, use_actor);
    const Result<void> connected = co_await connecting;
    timer_.expires_after(5ms);
    auto waiting = timer_.async_wait(use_actor);
    const Result<void> waited = co_await waiting;
    auto writing = boost::asio::async_write(socket_, buffer(kText), use_actor);
    const Result<std::size_t> written = co_await writing;
    while (connected && waited && written) {
      // No data follows the echo, so this deadline ends the wait and cancels the operation.
      const TimePoint limit = heard_.size() < kText.size() ? TimePoint::max() : Clock::now() + 20ms;
      auto reading = socket_.async_read_some(buffer(bytes_), use_actor.with(limit));
      const Result<std::size_t> count = co_await reading;
      if (!count) break;
      heard_.append(bytes_.data(), *count);
    }
    stop();  // closes the socket
  }

 private:
  tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::array<char, 64> bytes_{};
  std::string& heard_;  // owned by main(), which reads it after loop.run() has returned
};

}  // namespace

int main() {
  boost::asio::io_context loop(1);  // declared first: it must outlive the system
  std::string heard;
  System system({.workers = 1});
  const SpawnOptions here{.placement = Placement::on(adopt_io_context(system, loop))};

  tcp::acceptor acceptor(loop, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  const tcp::endpoint address = acceptor.local_endpoint();
  system.spawn<EchoServer>(here, std::move(acceptor)).tell(Serve{});
  system.spawn<Client>(here, loop, heard).tell(Talk{address});

  loop.run();  // returns when no operation and no timer is left
  const StopReport report = system.stop();
  std::printf("heard '%s'; %s\n", heard.c_str(), report.complete ? "stopped" : "still running");
  return heard == kText && report.drained && report.complete ? 0 : 1;
}
