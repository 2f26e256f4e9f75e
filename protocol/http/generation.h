#pragma once
// Answers one POST to /v1/chat/completions or /v1/completions.
//
// The engine's stream of events is read for as long as the client is there: letting go of it, at whatever
// point, frees what the request holds. A client that reads slowly holds up the write, and by it the reading
// of events, and by its credit the engine's work on this request alone.
//
// Headers of a stream go out when the request is admitted, or with the first keep-alive comment if it waits
// longer than that. What goes wrong before is a plain error with its status, what goes wrong later comes in
// the stream.
//
// Threading: the connection's actor.

#include <memory>
#include <optional>
#include <string>

#include "protocol/http/exchange.h"
#include "protocol/http/token_account.h"
#include "protocol/openai/request.h"
#include "protocol/openai/stream_reply.h"
#include "protocol/openai/whole_reply.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

class Generation {
 public:
  /// The tenant must outlive it.
  Generation(Exchange& exchange, const Tenant& tenant);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// False: the connection is to be closed.
  runtime::Task<bool> run();

 private:
  /// Counts the request among the server's and the tenant's, or says why it is refused.
  std::optional<ApiError> enter();

  /// What is known once the request has been admitted.
  ReplyHead head(const Admitted& admitted) const;

  /// Puts the opening of a call behind the prompt. Returns an error where that cannot be done.
  runtime::Task<std::optional<ApiError>> force_call();
  runtime::StreamReader<Event> generate();
  runtime::Task<bool> run_stream();
  runtime::Task<bool> run_whole();

  /// One event into `out_`, or into the whole reply; false: it was the last.
  bool take_streamed(Event& event);
  bool take_whole(Event& event);
  /// The stream of events ended without Done or Failed.
  ApiError broken_off(const runtime::Error& error) const;
  /// Nobody to answer, or no time: whether the connection can go on is answered.
  runtime::Task<bool> give_up();
  void fail_stream(const ApiError& error);

  Exchange& exchange_;
  ServerContext& context_;
  const Tenant& tenant_;
  std::uint32_t counted_ = 0;  // choices of all prompts, among the context's generations
  TokenAccount account_{};

  ApiRequest request_{};
  ReplyFormat format_{};
  ReplyParserOptions parser_{};
  runtime::StreamReader<Event> events_;

  std::optional<StreamReply> streamed_;
  std::string out_;  // events of the stream that are not written yet
  std::optional<WholeReply> whole_;
  std::string body_;  // the whole reply as JSON
  std::optional<ApiError> failure_;
};

}  // namespace reprise::protocol
