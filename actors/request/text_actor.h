#pragma once
// TextActor: tokenises, detokenises and renders, for those who ask for just that and for requests with long
// texts, and makes masks of tokens that take their time, away from their own threads.
//
// Failure: a text or a template that throws is that job's answer, and the actor goes on. Whatever else leaves
// a handler makes it start anew: it holds nothing, so nothing is lost but the job. Several such failures a
// minute are told by Engine::health().
//
// Threading: an actor on a thread of its own, for a text may be long and other actors must not wait for it; a
// few of them stand side by side (text_pool.h).

#include <memory>

#include "actors/request/prompt_text.h"
#include "actors/served/model_directory.h"
#include "actors/served/restart_log.h"
#include "protocol/grammar/mask_maker.h"
#include "protocol/service.h"
#include "runtime/actor.h"

namespace reprise::actors {

// `place`: in the queue, counted until the job has gone.
struct TokenizeJob {
  using Reply = protocol::Answer<protocol::Tokenized>;
  protocol::TokenizeRequest request;
  std::shared_ptr<void> place{};
};
struct DetokenizeJob {
  using Reply = protocol::Answer<protocol::Detokenized>;
  protocol::DetokenizeRequest request;
  std::shared_ptr<void> place{};
};
struct RenderJob {
  using Reply = protocol::Answer<protocol::Rendered>;
  protocol::RenderRequest request;
  std::shared_ptr<void> place{};
};

struct TextOfRequest {
  std::shared_ptr<const protocol::GenerateRequest> request;
  std::shared_ptr<const ServedModel> model;
  // HistoryJob: what the assistant said, the chat's turns that are known as they were sampled, and this one's where it is kept.
  Json reply{};
  std::vector<protocol::RecognizedTurn> turns{};
  protocol::SharedTurn reply_turn{};
};
/// prepare_prompt() of prompt_text.h and history_after() of the chat format. Skipped where nobody waits for it
/// any more.
struct PrepareJob {
  using Reply = Outcome<PreparedPrompt, protocol::ServiceError>;
  TextOfRequest of;
  std::shared_ptr<void> place{};
};
struct HistoryJob {
  using Reply = protocol::Answer<TokenList>;
  TextOfRequest of;
  std::shared_ptr<void> place{};
};

/// The mask behind the tokens that the reply has, where it is not known yet. Whoever asks leaves the constraint alone
/// until the answer.
struct MaskJob {
  using Reply = Outcome<SharedMask, protocol::ServiceError>;
  std::shared_ptr<protocol::grammar::ReplyConstraint> of;
  std::shared_ptr<void> place{};
};

/// The constraint's next mask, or why it cannot be made.
MaskJob::Reply made_mask(protocol::grammar::ReplyConstraint& constraint,
                         protocol::grammar::IsWanted wanted = {});

class TextActor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<TokenizeJob, DetokenizeJob, RenderJob, PrepareJob, HistoryJob, MaskJob,
                                    protocol::InjectCrash>;
  static constexpr const char* kName = "texts";
  static constexpr std::uint32_t kMostJobs = 64;
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 2 * kMostJobs,
                                                 .overload = runtime::Overload::kReject};

  TextActor(std::shared_ptr<const ModelDirectory> directory, std::shared_ptr<Restarts> restarts)
      : directory_(std::move(directory)), restarts_(std::move(restarts)) {}

  void on_start() { restarts_->texts.note_start(); }
  TokenizeJob::Reply on(const TokenizeJob& job);
  DetokenizeJob::Reply on(const DetokenizeJob& job);
  RenderJob::Reply on(const RenderJob& job);
  void on(PrepareJob job, runtime::ReplyTo<PrepareJob::Reply> reply);
  void on(HistoryJob job, runtime::ReplyTo<HistoryJob::Reply> reply);
  void on(MaskJob job, runtime::ReplyTo<MaskJob::Reply> reply);
  protocol::Nothing on(const protocol::InjectCrash& crash);

 private:
  protocol::Answer<std::shared_ptr<const ServedModel>> find(const std::string& name, bool wants_text) const;

  const std::shared_ptr<const ModelDirectory> directory_;
  const std::shared_ptr<Restarts> restarts_;
};

}  // namespace reprise::actors
