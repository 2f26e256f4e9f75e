// Cost of HTTP: our server with a null service, against a bare Beast server that writes the same bytes in as
// many writes. One server thread and one client thread each. Rounds alternate, so that other load affects
// both alike.
//
// bench_http [--seconds S] [--rounds N] [--connections C] [--events E]      one JSON object on stdout

#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
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
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "protocol/service.h"
#include "tools/lab/bench/http_client.h"

namespace reprise::bench {
namespace {

using namespace protocol;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

using Clock = std::chrono::steady_clock;

// ---- the null service

/// A Service that answers every request immediately with the same words, so that only HTTP is measured.
class NullService : public protocol::Service {
 public:
  explicit NullService(std::uint32_t tokens) : tokens_(tokens) {}

  runtime::StreamReader<protocol::Event> generate(protocol::GenerateRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Tokenized>> tokenize(protocol::TokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Detokenized>> detokenize(
      protocol::DetokenizeRequest request) override;
  runtime::Ask<protocol::Answer<protocol::Rendered>> render(protocol::RenderRequest request) override;
  std::vector<protocol::ModelCard> models() const override;
  protocol::Health health() const override { return {.ready = true}; }
  std::vector<protocol::Figure> figures() const override { return {}; }

 private:
  const std::uint32_t tokens_;  // per reply, unless the request sets a lower limit
};

template <class T>
runtime::Ask<Answer<T>> answered(T value) {
  return runtime::Ask<Answer<T>>(runtime::Result<Answer<T>>(Answer<T>(std::move(value))));
}

runtime::StreamReader<Event> NullService::generate(GenerateRequest request) {
  const std::uint32_t tokens = std::min(tokens_, request.max_tokens.value_or(tokens_));
  // The window holds all events, so no second thread is needed to write them.
  auto [writer, reader] = runtime::make_stream<Event>(tokens + 4);
  const auto write = [&writer = writer](Event event) { writer.try_write(event); };
  write(Admitted{"null", 4});
  write(Started{{}, {}});
  for (std::uint32_t i = 0; i < tokens; ++i) write(Delta{0, "word ", {{.id = 7, .bytes = "word "}}});
  write(Finished{0, FinishReason::kLength});
  write(Done{{.prompt_tokens = 4, .completion_tokens = tokens}});
  writer.close();
  return std::move(reader);
}

runtime::Ask<Answer<Tokenized>> NullService::tokenize(TokenizeRequest) {
  return answered(Tokenized{});
}
runtime::Ask<Answer<Detokenized>> NullService::detokenize(DetokenizeRequest) {
  return answered(Detokenized{});
}
runtime::Ask<Answer<Rendered>> NullService::render(RenderRequest) {
  return answered(Rendered{});
}

std::vector<ModelCard> NullService::models() const {
  return {{.id = "null", .architecture = "none", .context = 1u << 20, .state = ModelCard::State::kReady}};
}

// ---- the bare server

struct BareAnswer {
  std::string path;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body{};                 // sent with Content-Length; or
  std::vector<std::string> chunks{};  // sent one per write
};

/// The minimal Beast server, as the baseline: reads a request and writes prepared bytes. Groups its writes
/// like ours: a whole answer in one, the head of a stream with its first chunk, the end with its last. Runs
/// on its own thread.
class BareServer {
 public:
  explicit BareServer(std::vector<BareAnswer> answers);
  ~BareServer();

  std::uint16_t port() const;

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

struct Prepared {
  BareAnswer answer;
  std::vector<http::field> fields{};  // header fields, resolved once instead of looked up by name
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

// ---- the measurement

struct Options {
  double seconds = 1.0;
  int rounds = 5;
  int connections = 8;
  std::uint32_t events = 128;
};

struct Job {
  const char* name;
  std::string path;
  std::string request;
};

/// Returns a response's headers except those for the body's length.
std::vector<std::pair<std::string, std::string>> headers_of(std::string_view head) {
  std::vector<std::pair<std::string, std::string>> headers;
  head.remove_prefix(head.find("\r\n") + 2);
  while (!head.starts_with("\r\n")) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    const std::size_t colon = line.find(": ");
    const std::string_view name = line.substr(0, colon);
    if (name != "Content-Length" && name != "Transfer-Encoding") {
      headers.emplace_back(name, line.substr(colon + 2));
    }
    head.remove_prefix(line.size() + 2);
  }
  return headers;
}

BareAnswer whole_answer(std::uint16_t port, const Job& job) {
  HttpClient client(port);
  client.send(job.request);
  const ClientResponse answer = client.read_response();
  if (!answer.whole) throw std::runtime_error("no whole response came");
  return {.path = job.path, .headers = headers_of(answer.head), .body = answer.body};
}

std::vector<std::string> chunks_in(std::string_view rest) {
  std::vector<std::string> chunks;
  while (true) {
    const std::size_t length = std::strtoul(rest.data(), nullptr, 16);
    if (length == 0) return chunks;
    rest.remove_prefix(rest.find("\r\n") + 2);
    chunks.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length + 2);
  }
}

BareAnswer stream_answer(std::uint16_t port, const Job& job) {
  HttpClient client(port);
  client.send(job.request);
  if (!client.read_until("\r\n0\r\n\r\n")) throw std::runtime_error("no whole stream came");
  const std::string_view text = client.unread();
  const std::size_t body = text.find("\r\n\r\n") + 4;
  return {
      .path = job.path, .headers = headers_of(text.substr(0, body)), .chunks = chunks_in(text.substr(body))};
}

/// Returns answered requests per second with C connections, each with one request in flight.
double rate(std::uint16_t port, const Job& job, std::size_t response_bytes, const Options& options) {
  std::vector<std::unique_ptr<HttpClient>> clients;
  std::vector<pollfd> waiting;
  std::vector<std::size_t> missing(static_cast<std::size_t>(options.connections), response_bytes);
  for (int i = 0; i < options.connections; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port));
    clients.back()->send(job.request);
    waiting.push_back({.fd = clients.back()->socket(), .events = POLLIN, .revents = 0});
  }
  std::uint64_t answered = 0;
  std::vector<char> bytes(256u << 10);
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(options.seconds);
  while (Clock::now() < end) {
    ::poll(waiting.data(), waiting.size(), 1000);
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      const ssize_t count = ::recv(waiting[i].fd, bytes.data(), std::min(bytes.size(), missing[i]), 0);
      if (count <= 0) throw std::runtime_error("a server closed its connection");
      missing[i] -= static_cast<std::size_t>(count);
      if (missing[i] > 0) continue;
      ++answered;
      missing[i] = response_bytes;
      clients[i]->send(job.request);
    }
  }
  return static_cast<double>(answered) / std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the size of a response with its head, equal for every response to the job.
std::size_t bytes_of(std::uint16_t port, const Job& job, bool stream) {
  HttpClient client(port);
  client.send(job.request);
  if (stream) {
    if (!client.read_until("\r\n0\r\n\r\n")) throw std::runtime_error("no whole stream came");
    return client.unread().size();
  }
  const ClientResponse response = client.read_response();
  if (!response.whole) throw std::runtime_error("no whole response came");
  return response.head.size() + response.body.size();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Figures {
  double ours, bare, ratio;
};

Figures measure(std::uint16_t ours, std::uint16_t bare, const Job& job, bool stream, const Options& options) {
  const std::size_t bytes = bytes_of(ours, job, stream);
  if (bytes_of(bare, job, stream) != bytes) throw std::runtime_error("the servers write different bytes");
  std::vector<double> ours_rates, bare_rates, ratios;
  for (int i = 0; i < options.rounds; ++i) {
    ours_rates.push_back(rate(ours, job, bytes, options));
    bare_rates.push_back(rate(bare, job, bytes, options));
    ratios.push_back(bare_rates.back() / ours_rates.back());
  }
  return {median(ours_rates), median(bare_rates), median(ratios)};
}

int run(const Options& options) {
  protocol::set_log_level(protocol::LogLevel::kWarning);
  protocol::IoLoop loop;
  runtime::System system({.workers = 1});
  NullService service(options.events);
  protocol::HttpOptions http;
  http.port = 0;
  http.sse_batch_bytes = 0;  // one event per chunk, as when tokens arrive one by one
  protocol::HttpServer server(system, loop, service, http, protocol::all_apis());

  const std::string prompt = R"("prompt":[1,2,3,4],"max_tokens":)";
  const Job whole{"requests", "/v1/completions",
                  HttpClient::post_text("/v1/completions", "{" + prompt + "1}")};
  const Job stream{"stream", "/v1/completions",
                   HttpClient::post_text("/v1/completions", "{\"stream\":true," + prompt + "1000000}")};

  BareServer bare_whole({whole_answer(server.port(), whole)});
  const BareAnswer streamed = stream_answer(server.port(), stream);
  BareServer bare_stream({streamed});

  const Figures requests = measure(server.port(), bare_whole.port(), whole, false, options);
  const Figures streams = measure(server.port(), bare_stream.port(), stream, true, options);
  const auto events = static_cast<double>(streamed.chunks.size());
  std::printf(
      "{\"requests_per_s\": {\"ours\": %.0f, \"bare\": %.0f, \"bare_to_ours\": %.3f}, "
      "\"events_per_s\": {\"ours\": %.0f, \"bare\": %.0f, \"bare_to_ours\": %.3f}, "
      "\"chunks\": %zu, \"connections\": %d, \"rounds\": %d}\n",
      requests.ours, requests.bare, requests.ratio, streams.ours * events, streams.bare * events,
      streams.ratio, streamed.chunks.size(), options.connections, options.rounds);
  server.stop(std::chrono::milliseconds(0));
  return 0;
}

}  // namespace

}  // namespace reprise::bench

int main(int argc, char** argv) {
  using namespace reprise::bench;
  CLI::App app{"What HTTP costs: our server beside a bare Beast server"};
  Options options;
  app.add_option("--seconds", options.seconds, "Of one round")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Of each server and job")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--connections", options.connections, "Used at once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--events", options.events, "Tokens of a stream")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_http: %s\n", error.what());
    return 1;
  }
}
