#pragma once
// Limits on a request's body that bound the server's own work. The engine checks its own limits itself.

#include <cstddef>
#include <cstdint>

namespace reprise::protocol {

struct BodyLimits {
  std::size_t nesting = 64;       // arrays and objects
  std::size_t values = 250'000;   // JSON values of all kinds; token ids add prompt_tokens
  std::size_t members = 100'000;  // all objects together
  std::size_t messages = 65'536;
  std::size_t tools = 4096;
  std::size_t stop_strings = 16;
  std::size_t stop_bytes = 1024;          // per stop string
  std::size_t prompt_bytes = 16u << 20;   // a text prompt, or all messages together
  std::size_t prompt_tokens = 2'000'000;  // a prompt given as token ids
  std::size_t prompts = 32;
  std::uint32_t choices = 32;              // n, per prompt
  std::uint32_t max_tokens = 100'000'000;  // above any model's context
  int top_logprobs = 20;
  std::size_t logit_biases = 4096;
  std::size_t label_bytes = 1024;  // model, cache_salt, prompt_cache_key
};

}  // namespace reprise::protocol
