// What HTTP costs: our server in front of a null service, beside a bare Beast server that writes the same
// bytes in as many writes. Each has one thread, the client another. Rounds of the two take turns, so that a
// busy machine is unfair to both alike.
//
// bench_http [--seconds S] [--rounds N] [--connections C] [--events E]      one JSON object on stdout

#include <poll.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "protocol/apis.h"
#include "protocol/http/http_server.h"
#include "protocol/http/log.h"
#include "tools/lab/bench/bare_server.h"
#include "tools/lab/bench/http_client.h"
#include "tools/lab/bench/null_service.h"

namespace reprise::bench {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::ClientResponse;
using protocol::HttpClient;

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

/// The headers of a response but those that say how long its body is.
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

/// The chunks of a stream as they came.
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

/// Requests answered in a second by C connections, each with one request under way.
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

/// All bytes of one response, head included; every response to the job has as many.
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
  http.sse_batch_bytes = 0;  // one event a chunk, as when tokens come one by one
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
