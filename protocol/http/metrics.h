#pragma once
// What the HTTP server counts, and the page that shows it with the engine's figures, in Prometheus' text
// form.
//
// Threading: the server's loop; what is counted may be read from any thread by text().

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
  /// A connection that waited for a request was closed for a newcomer.
  void gave_way();
  /// What all bodies hold now.
  void set_body_bytes(std::size_t bytes);
  /// `path`: of the route; must outlive this.
  void request_done(std::string_view path, int status, double seconds);
  /// Of a request for so many choices, of all its prompts.
  void reply_done(const std::string& model, std::uint32_t choices, const Usage& usage);
  /// The client went away before its answer was whole.
  void client_left();

  /// With those of the process: its build, memory and age.
  std::string text(const std::vector<Figure>& engine) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace reprise::protocol
