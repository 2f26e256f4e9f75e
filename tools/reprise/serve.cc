// The HTTP server of `reprise serve`: one thread, one coroutine per connection.
#include "tools/reprise/serve.h"

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>

namespace reprise::tools {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kMaxHeaderBytes = 16 * 1024;
constexpr std::uint64_t kMaxBodyBytes = 64 * 1024;
constexpr int kMaxConnections = 512;
constexpr std::chrono::seconds kCloseTimeout{2};
constexpr std::chrono::milliseconds kAcceptPause{100};

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

#ifdef REPRISE_HAS_CUDA
constexpr std::string_view kCudaState = "compiled with CUDA";
#else
constexpr std::string_view kCudaState = "compiled without CUDA";
#endif

std::string front_page() {
  std::string page = R"(<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Reprise</title></head>
<body style="max-width: 40rem; margin: 3rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif">
<h1>Reprise )" REPRISE_VERSION
                     R"(</h1>
<p>An inference server and an embeddable actor runtime for hybrid language models, in the making.</p>
<p>This build has the actor runtime, which C++ programs can embed, and this page.
It cannot load a model or answer a prompt yet.</p>
<p>It was )";
  page += kCudaState;
  page += R"(. <a href="/health">/health</a> says whether the server is up.</p>
</body>
</html>
)";
  return page;
}

Response make_response(http::status status, unsigned version, std::string_view type, std::string body) {
  Response response{status, version};
  response.set(http::field::server, "reprise/" REPRISE_VERSION);
  response.set(http::field::content_type, type);
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

Response make_error(http::status status, unsigned version = 11) {
  return make_response(status, version, "text/plain", std::string(http::obsolete_reason(status)) + "\n");
}

// The part of the request target before any '?'.
std::string_view path_of(const Request& request) {
  const std::string_view target(request.target().data(), request.target().size());
  return target.substr(0, target.find('?'));
}

Response answer(const Request& request) {
  const std::string_view path = path_of(request);
  if (path != "/" && path != "/health") return make_error(http::status::not_found, request.version());
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Response response = make_error(http::status::method_not_allowed, request.version());
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  if (path == "/health") return make_response(http::status::ok, request.version(), "text/plain", "ok\n");
  return make_response(http::status::ok, request.version(), "text/html; charset=utf-8", front_page());
}

// The answer to a request that could not be read; no answer where the peer has gone or fallen silent.
std::optional<Response> answer_unreadable(const error_code& error) {
  if (error == http::error::header_limit) return make_error(http::status::request_header_fields_too_large);
  if (error == http::error::body_limit) return make_error(http::status::payload_too_large);
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error.category() == make_error_code(http::error::bad_method).category()) {
    return make_error(http::status::bad_request);
  }
  return std::nullopt;
}

// Sends the headers and, unless the request was a HEAD, the body.
asio::awaitable<void> send(beast::tcp_stream& stream, Response& response, bool is_head, error_code& error) {
  http::response_serializer<http::string_body> serializer(response);
  if (is_head) {
    co_await http::async_write_header(stream, serializer, redirect_error(use_awaitable, error));
  } else {
    co_await http::async_write(stream, serializer, redirect_error(use_awaitable, error));
  }
}

// Ends our side, then reads what the peer still sends, so that it sees our last response and not a reset.
asio::awaitable<void> close_gently(beast::tcp_stream& stream) {
  error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
  stream.expires_after(kCloseTimeout);
  std::array<char, 4096> discarded;
  while (!error) {
    co_await stream.async_read_some(asio::buffer(discarded), redirect_error(use_awaitable, error));
  }
}

// Answers the requests of one connection, one after the other, until the peer closes or a time limit passes.
asio::awaitable<void> handle_connection(beast::tcp_stream stream, std::chrono::seconds idle_timeout) {
  beast::flat_buffer buffer(kMaxHeaderBytes + kMaxBodyBytes);
  bool keep_alive = true;
  while (keep_alive) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(kMaxBodyBytes);
    stream.expires_after(idle_timeout);
    error_code error;
    co_await http::async_read(stream, buffer, parser, redirect_error(use_awaitable, error));

    std::optional<Response> response = error ? answer_unreadable(error) : answer(parser.get());
    if (!response) co_return;
    keep_alive = !error && parser.get().keep_alive();
    response->keep_alive(keep_alive);
    const bool is_head = !error && parser.get().method() == http::verb::head;
    stream.expires_after(idle_timeout);
    co_await send(stream, *response, is_head, error);
    if (error) co_return;
  }
  co_await close_gently(stream);
}

// Accepts until the io_context stops.
asio::awaitable<void> accept_connections(tcp::acceptor& acceptor, std::chrono::seconds idle_timeout) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer pause(executor);
  int open_connections = 0;
  for (;;) {
    if (open_connections >= kMaxConnections) {  // newcomers wait in the system's backlog
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(use_awaitable);
      continue;
    }
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(redirect_error(use_awaitable, error));
    if (error) {  // out of file descriptors, most likely
      std::cerr << "reprise: accept: " << error.message() << std::endl;
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(use_awaitable);
      continue;
    }
    ++open_connections;
    asio::co_spawn(executor, handle_connection(beast::tcp_stream(std::move(socket)), idle_timeout),
                   [&open_connections](std::exception_ptr) { --open_connections; });
  }
}

// Throws boost::system::system_error when the address is unknown or taken.
tcp::acceptor listen(asio::io_context& context, const ServeOptions& options) {
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
  return tcp::acceptor(context, *found.begin(), /*reuse_addr=*/true);
}

std::string url_of(const tcp::endpoint& endpoint) {
  std::ostringstream url;
  url << "http://" << endpoint << "/";
  return url.str();
}

}  // namespace

int serve(const ServeOptions& options) {
  asio::io_context context(1);
  std::optional<tcp::acceptor> acceptor;
  try {
    acceptor.emplace(listen(context, options));
  } catch (const boost::system::system_error& error) {
    std::cerr << "reprise: cannot listen on " << options.host << " port " << options.port << ": "
              << error.code().message() << std::endl;
    return 1;
  }

  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&context](error_code, int) { context.stop(); });
  asio::co_spawn(context, accept_connections(*acceptor, options.idle_timeout), asio::detached);

  std::cerr << "reprise: listening on " << url_of(acceptor->local_endpoint()) << std::endl;
  context.run();
  std::cerr << "reprise: stopped" << std::endl;
  return 0;
}

}  // namespace reprise::tools
