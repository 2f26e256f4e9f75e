#pragma once
// How much the body of a request may hold and ask for. What the engine can do, it checks itself; these keep
// the server's own work bounded.
//
// Threading: a plain value.

#include <cstddef>
#include <cstdint>

namespace reprise::protocol {

struct BodyLimits {
  std::size_t nesting = 64;       // of arrays and objects in the body
  std::size_t values = 250'000;   // of all kinds in the body, token ids apart
  std::size_t members = 100'000;  // of all its objects together
  std::size_t messages = 65'536;
  std::size_t tools = 4096;
  std::size_t stop_strings = 16;
  std::size_t stop_bytes = 1024;           // of each stop string
  std::size_t prompt_bytes = 16u << 20;    // of a text prompt, or of all messages together
  std::size_t prompt_tokens = 2'000'000;   // of a prompt in token ids
  std::size_t prompts = 32;                // of one completion
  std::uint32_t choices = 32;              // n, of each prompt
  std::uint32_t max_tokens = 100'000'000;  // more is a mistake in any model
  int top_logprobs = 20;
  std::size_t logit_biases = 4096;
  std::size_t label_bytes = 1024;  // model, cache_salt, prompt_cache_key
};

}  // namespace reprise::protocol
