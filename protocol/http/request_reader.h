#pragma once
// Reads requests from the bytes of a connection: Beast's parser behind a face without Beast.
//
//   kHead --feed()--> kHeadDone --read_body()--> kBody --feed()--> kDone --take()--> kHead
//
// The stop at kHeadDone is for whoever wants to answer before the body comes: Expect: 100-continue, or a
// refusal. feed() takes what belongs to the request at hand and leaves what lies behind it, for the next.
//
// Threading: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

/// What makes a request's framing ambiguous and Beast's parser lets pass. Two readers of one connection, a
/// proxy and this server, must agree on where a request ends; where RFC 9112 leaves a choice between mending
/// and refusing, we refuse:
///
///   Transfer-Encoding       at most once, exactly "chunked", not in HTTP/1.0, not beside Content-Length
///   Content-Length          at most once, digits alone
///   Host                    at most once
///   a line that goes on on the next one (obs-fold)
///   white space around the value of the first two, other than one space before it
///
/// Beast itself refuses bare CR and LF, control characters, names that are no tokens or have white space
/// behind them, and chunk sizes that are not hexadecimal.
class HeadCheck {
 public:
  /// Bytes of the head, in order; each piece ends at the end of a line. The first line is the request's.
  void see(std::string_view lines);

  /// A sentence, or empty. Of the first thing that is wrong; final when the whole head was seen.
  std::string_view problem() const { return problem_; }

 private:
  void see_request_line(std::string_view line);
  void see_field(std::string_view line);

  std::string_view problem_{};  // a literal
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

  /// Returns how many bytes it took. What it leaves must be offered again, with more behind it.
  std::size_t feed(std::string_view bytes);

  State state() const;
  /// From kHeadDone on. The body is there at kDone.
  const HttpRequest& request() const;
  /// At kHeadDone: goes on to the body, which may be done at once.
  void read_body();
  /// At kDone: makes room for the next request.
  HttpRequest take();
  /// Before that: what is known of the request. Lets go of its body; nothing more can be read.
  HttpRequest give_up();
  /// At kFailed.
  const ApiError& error() const;
  std::size_t body_bytes_read() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace reprise::protocol
