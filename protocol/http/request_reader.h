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
#include <memory>
#include <string>
#include <string_view>

#include "protocol/http/message.h"

namespace reprise::protocol {

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
