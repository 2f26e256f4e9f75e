#pragma once
// Error: why a job, a request to the engine or an HTTP request failed. One type from the device to the
// client: the device worker and the engine name its kind, and a table (error.cc) says how the APIs show it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace reprise::protocol {

enum class ErrorKind : std::uint8_t {
  // -- of requests
  kInvalid,  // malformed request; `param` names the offending member
  kUnknownModel,
  kTooLong,      // prompt and reply exceed the model's context or the memory; the message has the numbers
  kUnsupported,  // an option that would change the answer and is not implemented; `param` names it
  kOverloaded,   // queue full, or queued for too long; the client may retry
  kUnavailable,  // the model is loading, or its device failed and is being recovered
  kInternal,     // a defect of the engine
  kCanceled,     // by the client, or by shutdown
  // -- of HTTP
  kUnauthorized,
  kForbidden,
  kNotFound,
  kMethodNotAllowed,
  kTooSlow,
  kConflict,
  kBodyTooLarge,
  kMediaType,
  kExpectation,
  kUpgradeRequired,
  kHeadTooLarge,
  kNotImplemented,
  // -- of jobs on a device; request_error() translates them
  kUnknown,       // no such model, sequence or snapshot, or no longer
  kBadJob,        // invalid job, such as a token outside the vocabulary or a position beyond the tokens
  kNeverFits,     // needs more bytes than the device has for sequences
  kNoMemory,      // the memory is in use and no more can be freed
  kBusy,          // too many jobs are waiting
  kDamaged,       // a snapshot failed its checksum and was dropped
  kUnhealthy,     // the state or the logits are not finite
  kCannotSample,  // the request's biases exclude every token
  kDeviceFailed,  // a step failed; the model must be loaded again
  kNoAnswer,      // the worker is gone, or the wait timed out; `no_answer` has the cause
};

struct Error {
  ErrorKind kind;
  std::string message{};  // may quote client input, even invalid UTF-8
  std::string param{};    // request member as the client spells it, e.g. "messages[2].role"; may be empty
  std::optional<std::chrono::seconds> retry_after{};  // none: the kind's
  /// Set if the prompt is too long: its tokens, and the maximum.
  struct Lengths {
    std::uint64_t prompt = 0;
    std::uint64_t context = 0;
  };
  std::optional<Lengths> lengths{};
  std::string code{};  // word that APIs show; empty: the kind's
  runtime::ErrorCode no_answer = runtime::ErrorCode::kStopped;
};

/// The error of a question to an actor that did not answer.
Error unanswered_error(const runtime::Error& error);

/// Translates the error of a job to that of the request that needed it; others are returned unchanged.
Error request_error(Error error);

/// The parts of an error that all APIs show: its own fields, completed from the table of kinds.
struct ShownError {
  int status;  // of HTTP
  std::string code;
  std::string param;  // may be empty
  std::optional<std::chrono::seconds> retry_after;
};
ShownError shown(const Error& error);

}  // namespace reprise::protocol
