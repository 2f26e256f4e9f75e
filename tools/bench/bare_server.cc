#include "tools/bench/bare_server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <thread>

namespace reprise::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

using Answers = std::vector<BareAnswer>;

const BareAnswer& answer_to(const Answers& answers, std::string_view path) {
  for (const BareAnswer& answer : answers) {
    if (path == answer.path) return answer;
  }
  return answers.front();
}

asio::awaitable<void> write_chunks(beast::tcp_stream& stream, const BareAnswer& answer, error_code& error) {
  http::response<http::empty_body> response{http::status::ok, 11};
  response.set(http::field::server, "bare");
  response.set(http::field::content_type, answer.content_type);
  response.chunked(true);
  http::response_serializer<http::empty_body> serializer(response);
  co_await http::async_write_header(stream, serializer, redirect_error(use_awaitable, error));
  for (const std::string& chunk : answer.chunks) {
    if (error) co_return;
    const auto framed = http::make_chunk(asio::const_buffer(chunk.data(), chunk.size()));
    co_await asio::async_write(stream, framed, redirect_error(use_awaitable, error));
  }
  const auto last = http::make_chunk_last();
  co_await asio::async_write(stream, last, redirect_error(use_awaitable, error));
}

asio::awaitable<void> write_whole(beast::tcp_stream& stream, const BareAnswer& answer, error_code& error) {
  http::response<http::string_body> response{http::status::ok, 11};
  response.set(http::field::server, "bare");
  response.set(http::field::content_type, answer.content_type);
  response.body() = answer.body;
  response.prepare_payload();
  co_await http::async_write(stream, response, redirect_error(use_awaitable, error));
}

asio::awaitable<void> serve(beast::tcp_stream stream, const Answers& answers) {
  beast::flat_buffer buffer;
  stream.socket().set_option(tcp::no_delay(true));
  error_code error;
  while (!error) {
    http::request<http::string_body> request;
    co_await http::async_read(stream, buffer, request, redirect_error(use_awaitable, error));
    if (error) break;
    const BareAnswer& answer = answer_to(answers, {request.target().data(), request.target().size()});
    if (answer.chunks.empty()) {
      co_await write_whole(stream, answer, error);
    } else {
      co_await write_chunks(stream, answer, error);
    }
  }
}

asio::awaitable<void> accept(tcp::acceptor& acceptor, const Answers& answers) {
  while (true) {
    error_code error;
    tcp::socket socket = co_await acceptor.async_accept(redirect_error(use_awaitable, error));
    if (error) co_return;
    asio::co_spawn(acceptor.get_executor(), serve(beast::tcp_stream(std::move(socket)), answers),
                   asio::detached);
  }
}

}  // namespace

struct BareServer::Running {
  Answers answers;
  asio::io_context context{1};
  tcp::acceptor acceptor{context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::thread thread{};
};

BareServer::BareServer(std::vector<BareAnswer> answers) : running_(std::make_unique<Running>()) {
  running_->answers = std::move(answers);
  asio::co_spawn(running_->context, accept(running_->acceptor, running_->answers), asio::detached);
  running_->thread = std::thread([this] { running_->context.run(); });
}

BareServer::~BareServer() {
  running_->context.stop();
  running_->thread.join();
}

std::uint16_t BareServer::port() const {
  return running_->acceptor.local_endpoint().port();
}

}  // namespace reprise::bench
