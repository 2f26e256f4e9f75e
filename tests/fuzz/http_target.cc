// HTTP input from a socket: heads, bodies, chunks, paths, keys.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "protocol/apis.h"
#include "protocol/http/key_ring.h"
#include "protocol/http/request_reader.h"
#include "protocol/http/routes.h"
#include "tests/fuzz/cuts.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {
namespace {

using protocol::HttpRequest;
using protocol::ReadLimits;
using protocol::RequestReader;
using State = RequestReader::State;

std::string shown(const HttpRequest& request) {
  std::string out = request.method + ' ' + request.path + ' ' + std::to_string(request.minor_version) +
                    (request.keep_alive ? " keep" : " close") + (request.expects_continue ? " expects" : "");
  for (const auto& [name, value] : request.headers) out += '\n' + name + '=' + value;
  return out + "\n\n" + request.body;
}

struct Reading {
  std::vector<std::string> requests;
  State state = State::kHead;
};

// Reads like a connection: bytes that feed() leaves are offered again with the next piece.
Reading read_all(std::string_view input, const ReadLimits& limits, const Cuts& cuts) {
  RequestReader reader(limits);
  Reading reading;
  std::string waiting;
  for_each_piece(input, cuts, [&](std::string_view piece) {
    waiting += piece;
    while (reader.state() != State::kFailed) {
      if (reader.state() == State::kHeadDone) {
        reader.read_body();
      } else if (reader.state() == State::kDone) {
        const HttpRequest request = reader.take();
        REPRISE_CHECK(request.body.size() <= limits.body_bytes, "a body over its limit");
        reading.requests.push_back(shown(request));
      } else {
        const State before = reader.state();
        const std::size_t taken = reader.feed(waiting);
        REPRISE_CHECK(taken <= waiting.size(), "took more than there was");
        waiting.erase(0, taken);
        if (waiting.empty() || (taken == 0 && reader.state() == before)) break;
      }
    }
    // The last piece may have completed a request.
    if (reader.state() == State::kHeadDone) reader.read_body();
    if (reader.state() == State::kDone) reading.requests.push_back(shown(reader.take()));
  });
  reading.state = reader.state();
  if (reading.state == State::kFailed) {
    const int status = protocol::shown(reader.error()).status;
    REPRISE_CHECK(status >= 400 && status < 600, "an error without a status");
    REPRISE_CHECK(!reader.error().message.empty(), "an error without a message");
  }
  return reading;
}

// Depending on the cuts, an error in a head is found at once or at its end, and any of several errors may be
// reported.
bool is_undecided(const Reading& a, const Reading& b) {
  return (a.state == State::kHead && b.state == State::kFailed) ||
         (a.state == State::kFailed && b.state == State::kHead);
}

bool expect_same_for_all_cuts(std::string_view input, const ReadLimits& limits) {
  const Reading whole = read_all(input, limits, no_cuts());
  for (const Cuts& cuts : {cut_by_text(input), cut_everywhere(input)}) {
    const Reading pieces = read_all(input, limits, cuts);
    REPRISE_CHECK(pieces.requests == whole.requests, "the requests depend on how the bytes are cut");
    REPRISE_CHECK(pieces.state == whole.state || is_undecided(pieces, whole),
                  "the end depends on how the bytes are cut");
  }
  return !whole.requests.empty();
}

}  // namespace

bool fuzz_http(std::string_view input) {
  expect_same_for_all_cuts(input, {.header_bytes = 256, .body_bytes = 64});
  const bool taken = expect_same_for_all_cuts(input, {.header_bytes = 64u << 10, .body_bytes = 1u << 20});
  return taken;
}

bool fuzz_routes(std::string_view input) {
  static const protocol::RouteTable kRoutes(protocol::all_apis());
  const protocol::Route& route = kRoutes.find(input, "GET");
  REPRISE_CHECK(!route.path.empty(), "a route without a name");
  for (const std::string_view method : {"GET", "HEAD", "POST", "OPTIONS", "PUT"}) {
    const bool allowed = route.allows(method);
    REPRISE_CHECK(!allowed || route.allowed_methods().find(method) != std::string_view::npos,
                  "a method that is allowed and not listed");
  }
  if (route.exists()) {
    REPRISE_CHECK(route.path_end(input).size() <= input.size(), "a name longer than its path");
  }
  return route.exists();
}

bool fuzz_keys(std::string_view input) {
  protocol::KeyRing ring;
  const std::string wrong = ring.add(input);
  REPRISE_CHECK(!wrong.empty() || ring.empty() == (ring.size() == 0), "a ring that is empty and not");
  static_cast<void>(ring.tenant_of(input));
  const std::size_t middle = input.size() / 2;
  const std::string_view tenant = input.substr(0, middle);
  const std::string_view salt = input.substr(middle);
  const std::string name = protocol::name_space_of(tenant, salt);
  if (!salt.empty()) {  // a different split of the same bytes is a different pair
    const std::string other = protocol::name_space_of(input.substr(0, middle + 1), input.substr(middle + 1));
    REPRISE_CHECK(other != name, "two tenants in one name space");
  }
  return wrong.empty();
}

}  // namespace reprise::fuzz
