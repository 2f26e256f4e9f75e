#include "protocol/http/head_check.h"

#include <algorithm>

#include "protocol/http/message.h"

namespace reprise::protocol {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

/// What stands behind the colon, less one space.
std::string_view strict_value(std::string_view line, std::size_t colon) {
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
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
  if (colon == std::string_view::npos) return;  // the empty line
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

}  // namespace reprise::protocol
