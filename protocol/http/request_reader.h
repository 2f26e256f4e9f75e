#pragma once
// Incremental parser of HTTP requests; hides Beast's parser.
//
//   kHead --feed()--> kHeadDone --read_body()--> kBody --feed()--> kDone --take()--> kHead
//
// The pause at kHeadDone lets the caller answer before the body arrives (Expect: 100-continue, or a refusal).
// feed() consumes only the current request and leaves the bytes of the next one.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

/// Rejects heads with ambiguous framing that Beast accepts. A proxy and this server must agree where a
/// request ends (request smuggling); where RFC 9112 permits either repair or rejection, this rejects unless:
///
///   Transfer-Encoding       at most once, exactly "chunked", not in HTTP/1.0, not with Content-Length
///   Content-Length          at most once, digits only
///   Host                    at most once
///   no folded header lines (obs-fold)
///   no white space around the values of the first two, except one leading space
///
/// Beast itself rejects bare CR and LF, control characters, names that are no tokens or have trailing white
/// space, and chunk sizes that are not hexadecimal.
class HeadCheck {
 public:
  /// Checks bytes of the head, in order. Each piece must end at a line's end; the first line is the request
  /// line.
  void see(std::string_view lines);

  /// Returns the first problem found as a sentence, or empty. Final once the whole head was checked.
  std::string_view problem() const { return problem_; }

 private:
  void see_request_line(std::string_view line);
  void see_field(std::string_view line);

  std::string_view problem_{};
  bool begun_ = false;
  bool one_zero_ = false;
  bool has_coding_ = false;
  bool has_length_ = false;
  bool has_host_ = false;
};

struct ReadLimits {
  std::size_t header_bytes = 0;
  std::size_t body_bytes = 0;
};

class RequestReader {
 public:
  enum class State : std::uint8_t { kHead, kHeadDone, kBody, kDone, kFailed };

  explicit RequestReader(const ReadLimits& limits);
  ~RequestReader();

  /// Parses a prefix of `bytes` and returns its length. The caller must pass the rest again, followed by
  /// more.
  std::size_t feed(std::string_view bytes);

  State state() const;
  /// Requires: kHeadDone or later. The body is complete at kDone.
  const HttpRequest& request() const;
  /// Requires: kHeadDone. Starts the body, which may be complete at once.
  void read_body();
  /// Requires: kDone. Returns the request and starts the next.
  HttpRequest take();
  /// Before kDone: returns the request as far as it is known, without its body. Nothing more can be read.
  HttpRequest give_up();
  /// Requires: kFailed.
  const Error& error() const;
  std::size_t body_bytes_read() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace reprise::protocol
