#pragma once
// Answers one request at an API's path: has its body parsed, and then the question answered, or the text
// generated (protocol/http/generation.h).
//
// Threading: the connection's actor.

#include "protocol/http/exchange.h"
#include "protocol/http/tenant.h"
#include "runtime/task.h"

namespace reprise::protocol {

/// The exchange's route must have an endpoint. False: the connection is to be closed.
runtime::Task<bool> answer_call(Exchange& exchange, const Tenant& tenant);

}  // namespace reprise::protocol
