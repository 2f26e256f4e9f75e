#pragma once
// The least that a Beast server does: reads a request, writes bytes that were prepared. The yardstick for
// ours.
//
// Threading: made and destroyed by one thread; serves on one of its own.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::bench {

/// What is answered to a path.
struct BareAnswer {
  std::string path;
  std::string content_type;
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
