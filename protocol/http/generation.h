#pragma once
// Answers one request for text: the engine's events in, and what the API's reply makes of them out.
//
// The engine's stream of events is read for as long as the client is there: letting go of it, at whatever
// point, frees what the request holds. A client that reads slowly holds up the write, and by it the reading
// of events, and by its credit the engine's work on this request alone.
//
// Headers of a stream go out when the request is admitted, or with the first sign of life if it waits longer
// than that. What goes wrong before is a plain error with its status, what goes wrong later comes in the
// stream.
//
// Threading: the connection's actor.

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "protocol/api/endpoint.h"
#include "protocol/http/exchange.h"
#include "protocol/http/token_account.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

class Generation {
 public:
  /// The tenant must outlive it.
  Generation(Exchange& exchange, const Tenant& tenant, std::unique_ptr<GenerationCall> call);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// False: the connection is to be closed.
  runtime::Task<bool> run();

 private:
  /// Counts the request among the server's and the tenant's, or says why it is refused.
  std::optional<ApiError> enter();
  /// Gives back what `enter` counted and charges for the tokens. Comes before the last bytes are written: a
  /// client that has read its reply may ask again at once. Later calls do nothing.
  void leave();
  /// What the engine is told beside what the client said.
  void complete_request();
  /// Counts the field of a reasoning budget as unknown where the model does not reason.
  void note_idle_budget();

  /// How a chat's reply is to be read; puts the opening of a forced call behind the prompt. Returns an error
  /// where that cannot be done.
  runtime::Task<std::optional<ApiError>> prepare_chat(ReplyContext& context);
  runtime::Task<std::optional<ApiError>> force_call(ReplyContext& context);
  std::optional<ApiError> keep_calls(const ReplyContext& context);
  runtime::StreamReader<Event> generate();
  runtime::Task<bool> run_stream();
  runtime::Task<bool> run_whole();

  /// One event into `out_`; false: it was the last.
  bool take(Event& event);
  void fail(ApiError error);
  /// The stream of events ended without Done or Failed.
  ApiError broken_off(const runtime::Error& error) const;
  /// Nobody to answer, or no time: whether the connection can go on is answered.
  runtime::Task<bool> give_up();

  Exchange& exchange_;
  ServerContext& context_;
  const Tenant& tenant_;
  const std::unique_ptr<GenerationCall> call_;
  ApiRequest& request_;        // the call's
  std::uint32_t counted_ = 0;  // choices of all prompts, among the context's generations
  TokenAccount account_{};
  const TextTime text_time_ = std::make_shared<std::atomic<std::uint64_t>>(0);  // of all prompts
  runtime::StreamReader<Event> events_;

  std::unique_ptr<Reply> reply_;
  StreamedReply* streamed_ = nullptr;  // the same, where it is one
  bool admitted_ = false;

  std::string out_;                  // what is not written yet: events of a stream, or the body
  std::optional<ApiError> failure_;  // to be told with its status
};

}  // namespace reprise::protocol
