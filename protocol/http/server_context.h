#pragma once
// What all connections of a server share, and what a client is told when the server itself, not the engine, cannot take
// its request now.
//
// Threading: the server's loop alone.

#include <cstdint>
#include <string>

#include "protocol/http/bodies.h"
#include "protocol/http/connection_lists.h"
#include "protocol/http/http_options.h"
#include "protocol/http/metrics.h"
#include "protocol/http/routes.h"
#include "protocol/http/tenant_meter.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

struct ServerContext {
  ServerContext(HttpOptions given, ApiTable apis, Service& engine, runtime::System& actors,
                runtime::HomePtr loop);

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

/// No connection, or no memory, is left for what is asked.
ApiError server_busy(std::string message);
ApiError too_many_requests(std::uint32_t most);
/// More at once than there ever can be: trying again would not help.
ApiError never_fits(std::uint64_t wanted, std::uint32_t most);
ApiError over_limit(const OverLimit& over, const Tenant& tenant);
ApiError shutting_down();

}  // namespace reprise::protocol
