#pragma once
// TextActor: tokenises, detokenises and renders for those who ask for just that, away from their own threads.
//
// Threading: an actor on the pool.

#include <memory>

#include "actors/model_supervisor.h"
#include "protocol/service.h"
#include "runtime/actor.h"

namespace reprise::actors {

struct TokenizeJob {
  using Reply = protocol::Answer<protocol::Tokenized>;
  protocol::TokenizeRequest request;
};
struct DetokenizeJob {
  using Reply = protocol::Answer<protocol::Detokenized>;
  protocol::DetokenizeRequest request;
};
struct RenderJob {
  using Reply = protocol::Answer<protocol::Rendered>;
  protocol::RenderRequest request;
};

class TextActor : public runtime::Actor {
 public:
  using Accepts = runtime::Messages<TokenizeJob, DetokenizeJob, RenderJob>;
  static constexpr const char* kName = "texts";
  static constexpr runtime::MailboxSpec kMailbox{.capacity = 1024, .overload = runtime::Overload::kReject};

  explicit TextActor(std::shared_ptr<const ModelDirectory> directory) : directory_(std::move(directory)) {}

  TokenizeJob::Reply on(const TokenizeJob& job);
  DetokenizeJob::Reply on(const DetokenizeJob& job);
  RenderJob::Reply on(const RenderJob& job);

 private:
  protocol::Answer<std::shared_ptr<const ServedModel>> find(const std::string& name, bool wants_text) const;

  const std::shared_ptr<const ModelDirectory> directory_;
};

/// The model of that name, if it is ready.
protocol::Answer<std::shared_ptr<const ServedModel>> find_model(const ModelDirectory& directory,
                                                                const std::string& name);

}  // namespace reprise::actors
