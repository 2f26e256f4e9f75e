#pragma once
// The HTTP server's metrics, and the page that shows them with the engine's figures in Prometheus' text
// format.
//
// Threading: the server's loop; text() may be called from any thread.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/service.h"

namespace reprise::protocol {

class HttpMetrics {
 public:
  HttpMetrics();
  ~HttpMetrics();

  void connections_changed(int by);
  void generations_changed(int by);
  void gave_way();
  void set_body_bytes(std::size_t bytes);
  /// `path` is the route's and must outlive this.
  void request_done(std::string_view path, int status, double seconds);
  /// Records the reply to all prompts of a request with `choices` choices.
  void reply_done(const std::string& model, std::uint32_t choices, const Usage& usage);
  void client_left();

  /// Returns the metrics page, including the process's build, memory and uptime.
  std::string text(const std::vector<Figure>& engine) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace reprise::protocol
