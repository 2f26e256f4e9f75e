#pragma once
// The least that a Beast server does: reads a request, writes bytes that were prepared. The yardstick for
// ours, so it writes as ours does: a whole answer in one write, the head of a stream with its first chunk,
// the end of it with its last.
//
// Threading: made and destroyed by one thread; serves on one of its own.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::bench {

/// What is answered to a path.
struct BareAnswer {
  std::string path;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body{};                 // with Content-Length, or
  std::vector<std::string> chunks{};  // each written by itself
};

class BareServer {
 public:
  explicit BareServer(std::vector<BareAnswer> answers);
  ~BareServer();

  std::uint16_t port() const;

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace reprise::bench
