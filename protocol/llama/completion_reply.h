#pragma once
// The reply to POST /completion, as llama-server has it: one object for each choice, or a stream of small ones.
//
// A stream has an event for each token, and for each choice a last one with "stop": true and all that the whole reply
// has beside the text. Of a whole reply one choice is an object, and several are an array.
//
// Threading: one actor's. Memory grows with the reply, which max_tokens and the model's context bound.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api/reply.h"
#include "protocol/api/timings.h"
#include "protocol/llama/completion_request.h"

namespace reprise::protocol::llama {

/// What both forms collect.
class CompletionParts {
 public:
  explicit CompletionParts(const CompletionOptions& options);

  struct Choice {
    std::string text{};
    std::vector<ReplyToken> tokens{};  // of a stream: not yet told
    std::uint32_t predicted = 0;
    bool has_new_line = false;
    std::optional<Finished> finish{};
  };
  struct PromptAccount {
    CacheReport cache{};
    std::shared_ptr<const Settled> settled{};
  };

  void admitted(const Admitted& event);
  void started(const Started& event);
  Choice& add(Delta& event);
  Choice& finished(const Finished& event);
  Choice& choice(std::uint32_t index);
  std::size_t size() const { return choices_.size(); }
  /// All that is known of a choice at its end, less what was not asked for.
  Json account(std::uint32_t index, const Timings& timings, bool with_text) const;
  /// [{"id":…,"token":…,"bytes":…,"logprob":…,"top_logprobs":[…]}]
  void append_probabilities(std::string& out, const std::vector<ReplyToken>& tokens) const;
  Timings timings_of_choice(std::uint32_t index) const;
  std::uint32_t prompt_tokens(std::uint32_t index) const;
  const CompletionOptions& options() const { return options_; }

 private:
  Json probabilities(const std::vector<ReplyToken>& tokens) const;

  const CompletionOptions options_;
  std::string model_;
  std::uint32_t context_ = 0;
  std::vector<Choice> choices_;
  std::vector<PromptAccount> prompts_;
  LiveTimings clock_;
};

class WholeCompletion final : public Reply {
 public:
  explicit WholeCompletion(const CompletionOptions& options) : parts_(options) {}
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;

 private:
  CompletionParts parts_;
};

class StreamedCompletion final : public StreamedReply {
 public:
  explicit StreamedCompletion(const CompletionOptions& options) : parts_(options) {}
  std::string_view content_type() const override;
  void admitted(const Admitted& event, std::int64_t now, std::string& out) override;
  void progress(const Progress& event, std::string& out) override;
  void started(const Started& event, std::string& out) override;
  void delta(Delta event, std::string& out) override;
  void finished(const Finished& event, std::string& out) override;
  void done(const Done& event, std::string& out) override;
  void keep_alive(std::string& out) override;
  void failed(const ApiError& error, std::string& out) override;

 private:
  CompletionParts parts_;
};

}  // namespace reprise::protocol::llama
