#pragma once
// What llama-server tells of itself: GET /props, /slots and /models.
//
// A slot is a sequence that may be computed: there are as many as --parallel says. Those that are at work tell how long
// their prompts and replies are, never what they say.
//
// Threading: one actor's.

#include "protocol/api/endpoint.h"

namespace reprise::protocol::llama {

/// Of the first model.
class PropsQuestion final : public Question {
 public:
  explicit PropsQuestion(bool has_slots) : has_slots_(has_slots) {}
  runtime::Task<Answered> answer(Service& service) override;

 private:
  const bool has_slots_;
};

class SlotsQuestion final : public Question {
 public:
  explicit SlotsQuestion(bool told) : told_(told) {}
  runtime::Task<Answered> answer(Service& service) override;

 private:
  const bool told_;
};

/// OpenAI's list, with what llama-server has besides.
class LlamaModelsQuestion final : public Question {
 public:
  runtime::Task<Answered> answer(Service& service) override;
};

}  // namespace reprise::protocol::llama
