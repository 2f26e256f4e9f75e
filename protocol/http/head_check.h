#pragma once
// What makes a request's framing ambiguous and Beast's parser lets pass. Two readers of one connection, a
// proxy and this server, must agree on where a request ends; where RFC 9112 leaves a choice between mending
// and refusing, we refuse:
//
//   Transfer-Encoding       at most once, exactly "chunked", not in HTTP/1.0, not beside Content-Length
//   Content-Length          at most once, digits alone
//   Host                    at most once
//   a line that goes on on the next one (obs-fold)
//   white space around the value of the first two, other than one space before it
//
// Beast itself refuses bare CR and LF, control characters, names that are no tokens or have white space
// behind them, and chunk sizes that are not hexadecimal.
//
// Threading: one thread at a time.

#include <cstdint>
#include <string_view>

namespace reprise::protocol {

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

}  // namespace reprise::protocol
