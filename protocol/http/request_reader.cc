// The only file that knows Beast's parser.
#include "protocol/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "protocol/http/head_check.h"

namespace reprise::protocol {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

ApiError to_error(const boost::system::error_code& code) {
  if (code == http::error::header_limit || code == http::error::buffer_overflow) {
    return {.status = 431,
            .message = "the request's headers are longer than the server accepts",
            .code = "headers_too_long"};
  }
  if (code == http::error::body_limit) {
    return {.status = 413,
            .message = "the request's body is longer than the server accepts (http.max_body_bytes)",
            .code = "body_too_long"};
  }
  return {.message = "the request is not valid HTTP: " + code.message(), .code = "invalid_http"};
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' ? c != '\t' : c == '\x7f';
}

/// A quoted extension of a chunk may hold what others take for the end of its line.
struct ChunkExtensionCheck {
  void operator()(std::uint64_t, boost::beast::string_view extension, boost::system::error_code& error) {
    if (std::any_of(extension.begin(), extension.end(), is_control)) {
      error = http::error::bad_chunk_extension;
    }
  }
};

/// "/path?query" and "http://host/path?query" to "/path".
std::string path_of(std::string_view target) {
  if (target.starts_with("http://")) {
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return std::string(target.substr(0, target.find_first_of("?#")));
}

std::string query_of(std::string_view target) {
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string() : std::string(target.substr(mark + 1));
}

}  // namespace

class RequestReader::Parser {
 public:
  explicit Parser(const ReadLimits& limits) : limits_(limits) { reset(); }
  Parser(const Parser&) = delete;  // the parser keeps a reference to a member

  void reset() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
    parser_->body_limit(limits_.body_bytes);
    parser_->on_chunk_header(check_chunk_extension_);
    request_ = {};
    head_check_ = {};
    head_bytes_ = 0;
    state_ = State::kHead;
  }

  std::size_t feed(std::string_view bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size() && (state_ == State::kHead || state_ == State::kBody)) {
      boost::system::error_code error;
      const std::string_view rest = bytes.substr(taken);
      const std::size_t count = parser_->put(asio::const_buffer(rest.data(), rest.size()), error);
      taken += count;
      // The parser takes a head in whole lines, as the check wants them.
      if (state_ == State::kHead) {
        head_check_.see(rest.substr(0, count));
        head_bytes_ += count;
      }
      if (head_bytes_ > limits_.header_bytes) {  // Beast lets one through that comes whole
        fail(to_error(http::error::header_limit));
      } else if (!head_check_.problem().empty()) {
        fail({.message = "the request is not valid HTTP: " + std::string(head_check_.problem()),
              .code = "invalid_http"});
      } else if (error && error != http::error::need_more) {
        fail(to_error(error));
      } else if (state_ == State::kHead && parser_->is_header_done()) {
        take_head();
      } else if (state_ == State::kBody && parser_->is_done()) {
        finish();
      } else if (error || count == 0) {  // needs more than there is
        if (count == 0 && rest.size() > limits_.header_bytes) {
          fail({.status = 431, .message = "a header or chunk line is too long", .code = "headers_too_long"});
        }
        break;
      }
    }
    return taken;
  }

  void read_body() {
    state_ = State::kBody;
    parser_->eager(true);
    if (parser_->is_done()) finish();
  }

  std::size_t body_bytes() const {
    return state_ == State::kDone ? request_.body.size() : parser_->get().body().size();
  }

  void give_up() {
    parser_.emplace();
    state_ = State::kFailed;
  }

  const ReadLimits limits_;
  State state_ = State::kHead;
  HttpRequest request_;
  ApiError error_;

 private:
  void fail(ApiError error) {
    if (state_ == State::kHead)
      request_.path = path_of(parser_->get().target());  // whose API it is, if it came so far
    state_ = State::kFailed;
    error_ = std::move(error);
  }

  void take_head() {
    const auto& message = parser_->get();
    request_ = {};
    request_.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    request_.path = path_of(target);
    request_.query = query_of(target);
    request_.minor_version = message.version() >= 11 ? 1 : 0;
    request_.keep_alive = parser_->keep_alive();
    request_.headers.reserve(static_cast<std::size_t>(std::distance(message.begin(), message.end())));
    for (const auto& field : message) {
      request_.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                                    std::string(field.value()));
    }
    bool expects_other = false;
    for (const auto& [name, value] : request_.headers) {
      if (name != "expect") continue;
      const bool is_continue = lower_case(value) == "100-continue";
      expects_other = expects_other || (!is_continue && !value.empty());
      request_.expects_continue = request_.minor_version == 1 && is_continue;
    }
    if (request_.minor_version == 1 && request_.header("host").empty()) {
      fail(
          {.message = "the request is not valid HTTP: HTTP/1.1 needs a Host header", .code = "invalid_http"});
    } else if (expects_other) {
      fail(
          {.status = 417, .message = "Expect: only 100-continue is supported", .code = "expectation_failed"});
    } else {
      state_ = State::kHeadDone;
    }
  }

  void finish() {
    request_.body = std::move(parser_->get().body());
    state_ = State::kDone;
  }

  std::size_t head_bytes_ = 0;
  std::optional<http::request_parser<http::string_body>> parser_;
  HeadCheck head_check_;
  ChunkExtensionCheck check_chunk_extension_;
};

RequestReader::RequestReader(const ReadLimits& limits) : parser_(std::make_unique<Parser>(limits)) {}
RequestReader::~RequestReader() = default;

std::size_t RequestReader::feed(std::string_view bytes) {
  return parser_->feed(bytes);
}
RequestReader::State RequestReader::state() const {
  return parser_->state_;
}
const HttpRequest& RequestReader::request() const {
  return parser_->request_;
}
const ApiError& RequestReader::error() const {
  return parser_->error_;
}
std::size_t RequestReader::body_bytes_read() const {
  return parser_->body_bytes();
}

void RequestReader::read_body() {
  REPRISE_CHECK(state() == State::kHeadDone, "read_body() before the head was read");
  parser_->read_body();
}

HttpRequest RequestReader::give_up() {
  parser_->give_up();
  return std::move(parser_->request_);
}

HttpRequest RequestReader::take() {
  REPRISE_CHECK(state() == State::kDone, "take() before the request was read");
  HttpRequest request = std::move(parser_->request_);
  parser_->reset();
  return request;
}

}  // namespace reprise::protocol
