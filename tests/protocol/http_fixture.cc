// A server with the scripted service for clients in other processes: tests/openai_client, tests/page and
// tests/proxy. A prompt that contains "release the others" ends all holds. A prompt that begins with "say: "
// is answered with the rest of it; "go on slowly" with a word now and then.
//
// http_fixture [--key KEY | --allowed-host NAME]      "listening on URL" on stderr; ends with SIGTERM or
// SIGINT

#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "tests/protocol/served.h"

int main(int argc, char** argv) {
  using namespace reprise::protocol;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  HttpOptions options;
  options.sse_keep_alive = std::chrono::milliseconds(50);
  if (argc == 3 && std::string_view(argv[1]) == "--key") options.keys.add(argv[2]);
  if (argc == 3 && std::string_view(argv[1]) == "--allowed-host") options.allowed_hosts.emplace_back(argv[2]);
  Served served(options);
  // The part of a template by which its tags are detected.
  served.service.set_chat_template("<think>\n\n</think>\n\n<tool_call>{{ tool_call | tojson }}</tool_call>");
  served.service.set_script([&](const GenerateRequest& request) {
    if (last_words(request).find("release the others") != std::string::npos) served.service.release();
    constexpr std::string_view kSay = "say: ";
    const std::string words = last_words(request);
    if (words.starts_with(kSay)) return reply_with(request, {words.substr(kSay.size())});
    if (words == "go on slowly") {
      Script slow;
      Script words_to_say = reply_with(request, std::vector<std::string>(5000, "word "));
      for (ScriptStep& step : words_to_say) {
        slow.push_back(std::move(step));
        if (slow.size() > 2)
          slow.emplace_back(std::in_place_type<Pause>, Pause{std::chrono::milliseconds(20)});
      }
      return slow;
    }
    return default_script(request);
  });
  std::fprintf(stderr, "listening on %s\n", served.server.url().c_str());
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}
