#pragma once
// What all connections of a server share.
//
// Threading: the server's loop alone.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "protocol/http/body_budget.h"
#include "protocol/http/body_parser.h"
#include "protocol/http/http_options.h"
#include "protocol/http/metrics.h"
#include "protocol/http/routes.h"
#include "protocol/http/tenant_meter.h"
#include "protocol/http/waiting_list.h"
#include "protocol/reply/reply_format.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

/// The reply formats of models, found once for each chat template.
class FormatCache {
 public:
  const ReplyFormat& of(const ModelCard& card);

 private:
  struct Known {
    std::string chat_template;
    ReplyFormat format;
  };
  std::unordered_map<std::string, Known> known_;  // by model; bounded by the models there are
};

struct ServerContext {
  ServerContext(HttpOptions given, ApiTable apis, Service& engine, runtime::System& actors,
                runtime::HomePtr loop);

  /// The format that the named model (empty: the first) writes its replies in.
  ReplyFormat format_of(const std::string& model);
  /// 24 hex digits that no other request of this server has.
  std::string new_id();

  const HttpOptions options;
  const RouteTable routes;
  Service& service;
  runtime::System& system;
  const runtime::HomePtr home;  // of connections: the server's loop
  BodyParsers bodies;
  HttpMetrics metrics;
  BodyBudget body_budget;
  WaitingList waiting;             // connections without a request
  WaitingList waiting_in_reserve;  // the same of those that only health and metrics are for
  TenantMeter meter;
  std::uint32_t generations = 0;  // under way: choices of all prompts of all requests
  bool draining = false;          // no further requests on open connections

 private:
  FormatCache formats_;
  std::uint64_t id_seed_;
  std::uint64_t requests_ = 0;
};

}  // namespace reprise::protocol
