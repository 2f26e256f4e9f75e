#include "protocol/http/message.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json_text.h"

namespace reprise::protocol {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 426:
      return "Upgrade Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unknown";
  }
}

}  // namespace

bool same_name(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

HttpResponse json_response(std::string body, int status) {
  return {.status = status, .body = std::move(body)};
}

HttpResponse error_response(const Error& error, const Dialect& dialect) {
  Dialect::ErrorAnswer answer = dialect.error_answer(error);
  HttpResponse response = json_response(std::move(answer.body), answer.status);
  if (const auto retry_after = shown(error).retry_after) {
    response.headers.emplace_back("Retry-After", std::to_string(retry_after->count()));
  }
  if (error.kind == ErrorKind::kUnauthorized) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::string head_text(const HttpResponse& response, const Headers& common, Framing framing,
                      unsigned minor_version, bool keep_alive) {
  constexpr std::size_t kUsualHead = 320;
  std::string out;
  out.reserve(kUsualHead + response.body.size());
  out += minor_version == 0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  append_integer(out, response.status);
  out += ' ';
  out += reason_of(response.status);
  out += "\r\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    out += name;
    out += ": ";
    out += value;
    out += "\r\n";
  };
  for (const auto& [name, value] : common) add(name, value);
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) add(name, value);
  if (framing == Framing::kLength && response.status != 204 && response.status != 304) {
    out += "Content-Length: ";
    append_integer(out, static_cast<std::int64_t>(response.body.size()));
    out += "\r\n";
  } else if (framing == Framing::kChunked) {
    add("Transfer-Encoding", "chunked");
  }
  if (!keep_alive) {
    add("Connection", "close");
  } else if (minor_version == 0) {
    add("Connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

void append_chunk(std::string& out, std::string_view data) {
  std::array<char, 20> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), data.size(), 16);
  out.append(digits.data(), written.ptr);
  out += "\r\n";
  out += data;
  out += "\r\n";
}

}  // namespace reprise::protocol
