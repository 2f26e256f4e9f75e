#include "tools/lab/bench/bare_server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_cat.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <sstream>
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

struct Prepared {
  BareAnswer answer;
  std::vector<http::field> fields{};  // of the answer's headers, so that none is looked up by its name
  std::string head{};                 // as text, for a stream
};
using Answers = std::vector<Prepared>;

template <class Body>
http::response<Body> response_to(const Prepared& prepared) {
  http::response<Body> response{http::status::ok, 11};
  for (std::size_t i = 0; i < prepared.fields.size(); ++i) {
    const auto& [name, value] = prepared.answer.headers[i];
    response.insert(prepared.fields[i], name, value);
  }
  return response;
}

Prepared prepare(BareAnswer answer) {
  Prepared prepared{.answer = std::move(answer)};
  for (const auto& header : prepared.answer.headers) {
    prepared.fields.push_back(http::string_to_field(header.first));
  }
  auto response = response_to<http::empty_body>(prepared);
  response.chunked(true);
  std::ostringstream head;
  head << response.base();
  prepared.head = head.str();
  return prepared;
}

const Prepared& answer_to(const Answers& answers, std::string_view path) {
  for (const Prepared& prepared : answers) {
    if (path == prepared.answer.path) return prepared;
  }
  return answers.front();
}

asio::awaitable<void> write_chunks(beast::tcp_stream& stream, const Prepared& prepared, error_code& error) {
  const std::vector<std::string>& chunks = prepared.answer.chunks;
  for (std::size_t i = 0; i < chunks.size() && !error; ++i) {
    const auto framed = http::make_chunk(asio::buffer(chunks[i]));
    if (i == 0) {
      const auto begin = beast::buffers_cat(asio::buffer(prepared.head), framed);
      co_await asio::async_write(stream, begin, redirect_error(use_awaitable, error));
    } else if (i + 1 == chunks.size()) {
      const auto end = beast::buffers_cat(framed, http::make_chunk_last());
      co_await asio::async_write(stream, end, redirect_error(use_awaitable, error));
    } else {
      co_await asio::async_write(stream, framed, redirect_error(use_awaitable, error));
    }
  }
}

asio::awaitable<void> write_whole(beast::tcp_stream& stream, const Prepared& prepared, error_code& error) {
  auto response = response_to<http::string_body>(prepared);
  response.body() = prepared.answer.body;
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
    const Prepared& prepared = answer_to(answers, {request.target().data(), request.target().size()});
    if (prepared.answer.chunks.empty()) {
      co_await write_whole(stream, prepared, error);
    } else {
      co_await write_chunks(stream, prepared, error);
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
  for (BareAnswer& answer : answers) running_->answers.push_back(prepare(std::move(answer)));
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
