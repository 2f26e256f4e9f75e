// The only file that includes Beast's parser.
#include "protocol/http/request_reader.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

namespace reprise::protocol {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr std::string_view kLineEnd = "\r\n";

/// Returns the text after the colon, without one leading space.
std::string_view strict_value(std::string_view line, std::size_t colon) {
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

Error invalid_http(std::string_view problem) {
  return {.kind = ErrorKind::kInvalid,
          .message = "the request is not valid HTTP: " + std::string(problem),
          .code = "invalid_http"};
}

Error to_error(const boost::system::error_code& code) {
  if (code == http::error::header_limit || code == http::error::buffer_overflow) {
    return {ErrorKind::kHeadTooLarge, "the request's headers are longer than the server accepts"};
  }
  if (code == http::error::body_limit) {
    return {ErrorKind::kBodyTooLarge,
            "the request's body is longer than the server accepts (http.max_body_bytes)"};
  }
  return invalid_http(code.message());
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' ? c != '\t' : c == '\x7f';
}

/// Rejects control characters in chunk extensions: inside quotes, other parsers may take them for the end of
/// the line.
struct ChunkExtensionCheck {
  void operator()(std::uint64_t, boost::beast::string_view extension, boost::system::error_code& error) {
    if (std::any_of(extension.begin(), extension.end(), is_control)) {
      error = http::error::bad_chunk_extension;
    }
  }
};

/// "/path?query" and "http://host/path?query" -> "/path".
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

void HeadCheck::see(std::string_view lines) {
  while (!lines.empty() && problem_.empty()) {
    const std::size_t end = std::min(lines.find(kLineEnd), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + kLineEnd.size(), lines.size()));
    if (begun_) {
      see_field(line);
    } else {
      see_request_line(line);
    }
  }
}

void HeadCheck::see_request_line(std::string_view line) {
  begun_ = true;
  one_zero_ = line.ends_with("HTTP/1.0");
}

void HeadCheck::see_field(std::string_view line) {
  if (line.starts_with(' ') || line.starts_with('\t')) {
    problem_ = "folded header lines are not accepted";
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;  // the empty line that ends the head
  const std::string_view name = line.substr(0, colon);
  if (same_name(name, "transfer-encoding")) {
    if (has_coding_) problem_ = "there are several Transfer-Encoding headers";
    if (has_length_) problem_ = "there are both Transfer-Encoding and Content-Length";
    if (one_zero_) problem_ = "HTTP/1.0 requests cannot have a Transfer-Encoding";
    if (!same_name(strict_value(line, colon), "chunked")) {
      problem_ = "the only supported Transfer-Encoding is 'chunked'";
    }
    has_coding_ = true;
  } else if (same_name(name, "content-length")) {
    if (has_length_) problem_ = "there are several Content-Length headers";
    if (has_coding_) problem_ = "there are both Transfer-Encoding and Content-Length";
    if (!is_number(strict_value(line, colon))) problem_ = "Content-Length is not a number";
    has_length_ = true;
  } else if (same_name(name, "host")) {
    if (has_host_) problem_ = "there are several Host headers";
    has_host_ = true;
  }
}

class RequestReader::Parser {
 public:
  explicit Parser(const ReadLimits& limits) : limits_(limits) { reset(); }
  Parser(const Parser&) = delete;  // parser_ refers to a member

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
      // The parser consumes a head in whole lines, as HeadCheck requires.
      if (state_ == State::kHead) {
        head_check_.see(rest.substr(0, count));
        head_bytes_ += count;
      }
      if (head_bytes_ > limits_.header_bytes) {  // Beast accepts a longer head that arrives in one piece
        fail(to_error(http::error::header_limit));
      } else if (!head_check_.problem().empty()) {
        fail(invalid_http(head_check_.problem()));
      } else if (error && error != http::error::need_more) {
        fail(to_error(error));
      } else if (state_ == State::kHead && parser_->is_header_done()) {
        take_head();
      } else if (state_ == State::kBody && parser_->is_done()) {
        finish();
      } else if (error || count == 0) {
        if (count == 0 && rest.size() > limits_.header_bytes) {
          fail({ErrorKind::kHeadTooLarge, "a header or chunk line is too long"});
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
  Error error_;

 private:
  void fail(Error error) {
    if (state_ == State::kHead)
      request_.path = path_of(parser_->get().target());  // selects the API's error format, if known
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
      fail(invalid_http("HTTP/1.1 needs a Host header"));
    } else if (expects_other) {
      fail({ErrorKind::kExpectation, "Expect: only 100-continue is supported"});
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
const Error& RequestReader::error() const {
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
