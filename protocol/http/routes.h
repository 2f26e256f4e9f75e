#pragma once
// The routes: the server's own pages and the endpoints of its APIs (protocol/api/endpoint.h). Immutable once
// built.

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
  std::string path;         // also the label in logs and metrics, which must not be client-chosen
  Page page = Page::kNone;  // kNone: an API's endpoint, or nothing at this path
  const PageFile* file = nullptr;
  std::shared_ptr<const Endpoint> endpoint{};  // null: a page, or nothing at this path
  const Dialect* elsewhere = nullptr;          // format of errors if there is no endpoint
  bool generates = false;
  bool is_public = false;
  bool for_operators = false;

  bool exists() const { return page != Page::kNone || endpoint != nullptr; }
  const Dialect& dialect() const { return endpoint == nullptr ? *elsewhere : endpoint->dialect(); }
  std::string methods{};  // methods of all routes at its path, comma-separated
  std::string_view allowed_methods() const { return methods; }
  bool allows(std::string_view method_name) const;
  /// Returns the part of `asked` that matched {…}, percent-decoded. Requires: `asked` led to this route.
  std::string path_end(std::string_view asked) const;
};

class RouteTable {
 public:
  explicit RouteTable(ApiTable apis, bool front_page = true);

  /// Never fails: returns a route whose exists() is false if there is none at the path. Among several at a
  /// path, prefers the one that accepts the method. The reference is valid as long as the table.
  const Route& find(std::string_view path, std::string_view method) const;

 private:
  std::vector<Route> routes_;
  Route nothing_;
};

}  // namespace reprise::protocol
