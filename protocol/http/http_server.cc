#include "protocol/http/http_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <sstream>

#include "protocol/http/listener.h"
#include "runtime/asio_home.h"

namespace reprise::protocol {

using boost::asio::ip::tcp;

namespace {

constexpr std::chrono::seconds kGrace{3};  // for the listener itself

tcp::acceptor listen(boost::asio::io_context& context, const HttpOptions& options) {
  try {
    tcp::resolver resolver(context);
    const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
    return tcp::acceptor(context, *found.begin(), /*reuse_addr=*/true);
  } catch (const boost::system::system_error& error) {
    throw ListenError("cannot listen on " + options.host + " port " + std::to_string(options.port) + ": " +
                      error.code().message());
  }
}

}  // namespace

IoLoop::IoLoop() : work_(boost::asio::make_work_guard(context_)), thread_([this] { context_.run(); }) {}

IoLoop::~IoLoop() {
  work_.reset();
  context_.stop();
  thread_.join();
}

struct HttpServer::Listening {
  runtime::RefOf<Listener> listener;
  std::shared_ptr<ServerContext> context;
  bool stopped = false;
};

HttpServer::HttpServer(runtime::System& system, IoLoop& loop, Service& service, HttpOptions options,
                       ApiTable apis)
    : listening_(std::make_unique<Listening>()) {
  tcp::acceptor acceptor = listen(loop.context(), options);
  const tcp::endpoint endpoint = acceptor.local_endpoint();
  port_ = endpoint.port();
  std::ostringstream url;
  url << "http://" << endpoint << "/";
  url_ = url.str();
  const runtime::HomePtr home = runtime::adopt_io_context(system, loop.context());
  listening_->context =
      std::make_shared<ServerContext>(std::move(options), std::move(apis), service, system, home);
  listening_->listener = system.spawn<Listener>({.placement = runtime::Placement::on(home)},
                                                std::move(acceptor), listening_->context);
}

HttpServer::~HttpServer() {
  stop(std::chrono::milliseconds(0));
}

bool HttpServer::stop(std::chrono::milliseconds patience) {
  if (std::exchange(listening_->stopped, true)) return true;
  const runtime::Result<bool> closed =
      listening_->listener.ask_blocking(CloseServer{patience}, patience + kGrace);
  listening_->listener.stop();
  return closed.ok() && *closed;
}

}  // namespace reprise::protocol
