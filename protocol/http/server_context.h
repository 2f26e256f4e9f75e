#pragma once
// State shared by all connections of a server, and the errors sent when the server itself, not the engine,
// refuses a request.
//
// Threading: the server's loop only.

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
                runtime::ExecutorPtr loop);

  const HttpOptions options;
  const RouteTable routes;
  Service& service;
  runtime::System& system;
  const runtime::ExecutorPtr executor;  // the server's loop
  BodyParsers bodies;
  HttpMetrics metrics;
  BodyBudget body_budget;
  WaitingList waiting;             // idle regular connections
  SenderList senders;              // regular connections whose request is still arriving
  WaitingList waiting_in_reserve;  // idle reserve connections
  TenantMeter meter;
  std::uint32_t generations = 0;  // running: choices of all prompts of all requests
  bool draining = false;          // open connections accept no further requests
};

/// Returns 128 random bits in hex, so that an ID can be neither guessed nor used to count requests.
std::string new_id();

/// All connections or all body memory is in use.
Error server_busy(std::string message);
Error shutting_down();

}  // namespace reprise::protocol
