#pragma once
// What can be asked for, and how: the server's own pages, and what its APIs have (protocol/api/endpoint.h).
//
// Threading: immutable once made.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/endpoint.h"
#include "protocol/http/pages.h"

namespace reprise::protocol {

enum class Page : std::uint8_t { kNone, kFile, kHealth, kLive, kMetrics };

struct Route {
  HttpMethod method = HttpMethod::kGet;
  std::string path;                            // for logs and metrics too: what clients invent is no label
  Page page = Page::kNone;                     // one of the server's own,
  const PageFile* file = nullptr;              // of kFile
  std::shared_ptr<const Endpoint> endpoint{};  // or an API's; neither: there is nothing at this path
  const Dialect* elsewhere = nullptr;          // how errors are told where no endpoint says so
  bool generates = false;
  bool is_public = false;
  bool for_operators = false;

  bool exists() const { return page != Page::kNone || endpoint != nullptr; }
  const Dialect& dialect() const { return endpoint == nullptr ? *elsewhere : endpoint->dialect(); }
  std::string methods{};  // of all routes at its path
  /// "GET, HEAD, OPTIONS"
  std::string_view allowed_methods() const { return methods; }
  bool allows(std::string_view method_name) const;
  /// What stands in the place of {…}, with %xx decoded. `asked` must be a path that has led here.
  std::string path_end(std::string_view asked) const;
};

class RouteTable {
 public:
  explicit RouteTable(ApiTable apis, bool front_page = true);

  /// There is always one; it stays where it is as long as the table. Of several at a path the one that takes the
  /// method, if there is one.
  const Route& find(std::string_view path, std::string_view method) const;

 private:
  std::vector<Route> routes_;
  Route nothing_;
};

}  // namespace reprise::protocol
