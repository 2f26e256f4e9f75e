#pragma once
// What all connections of a server share.
//
// Threading: the server's loop alone.

#include <cstdint>
#include <string>

#include "protocol/chat/chat_format.h"
#include "protocol/http/body_budget.h"
#include "protocol/http/body_parser.h"
#include "protocol/http/http_options.h"
#include "protocol/http/metrics.h"
#include "protocol/http/routes.h"
#include "protocol/http/sender_list.h"
#include "protocol/http/tenant_meter.h"
#include "protocol/http/waiting_list.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

struct ServerContext {
  ServerContext(HttpOptions given, ApiTable apis, Service& engine, runtime::System& actors,
                runtime::HomePtr loop);

  /// How the named model (empty: the first) chats; null where it does not, or there is none.
  ChatFormatPtr chat_of(const std::string& model) const;
  /// The name itself, or none where one model alone is served and has another.
  std::string nearest_model(const std::string& name) const;

  const HttpOptions options;
  const RouteTable routes;
  Service& service;
  runtime::System& system;
  const runtime::HomePtr home;  // of connections: the server's loop
  BodyParsers bodies;
  HttpMetrics metrics;
  BodyBudget body_budget;
  WaitingList waiting;             // regular connections without a request
  SenderList senders;              // regular connections with an unfinished request
  WaitingList waiting_in_reserve;  // the same of those that only health and metrics are for
  TenantMeter meter;
  std::uint32_t generations = 0;  // under way: choices of all prompts of all requests
  bool draining = false;          // no further requests on open connections
};

/// 128 random bits in hex: whoever has not been told it cannot guess it, nor how many there were before.
std::string new_id();

}  // namespace reprise::protocol
