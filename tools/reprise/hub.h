#pragma once
// Models from a hub: Hugging Face's, or one that speaks like it (HF_ENDPOINT). HF_TOKEN, where it is set, is sent with
// every request to that place, and to no other that it sends us on to.
//
// A file is written as FILE.part and renamed when all of it is there, with the size and, where the hub tells it, the
// checksum that it was listed with; a pull that broke off goes on where it was. Broken connections are tried again, a
// few times.
//
// Bounds: a list of kMostHubFiles files, kMostListBytes; no file gets longer than it was listed, and nothing is begun
// that the disk has no room for.
//
// Threading: one thread at a time. Two programs that pull the same file: the second is refused.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/reprise/hub_name.h"

namespace reprise::tools {

inline constexpr std::size_t kMostHubFiles = 10'000;
inline constexpr std::size_t kMostListBytes = std::size_t{32} << 20;

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string token{};
  std::string revision = "main";
  std::filesystem::path
      folder{};        // models lie in folder/OWNER/MODEL, other revisions than main in MODEL@REVISION
  unsigned tries = 5;  // of a connection that breaks, each a little later
};

/// From HF_ENDPOINT, HF_TOKEN and REPRISE_MODELS, ~/.cache/reprise/models without it. Throws UsageError.
HubSettings hub_settings();

/// The files in the hub's answer to a request for the list of them; those with paths that lead elsewhere are left out.
/// `model` names it in errors. Throws std::runtime_error.
std::vector<HubFile> read_hub_list(const std::string& body, const std::string& model);

/// What --model takes: the folder, or the GGUF file (the first of its parts). Pulls what is not there yet, and asks the
/// hub nothing where all is. Progress goes to stderr where that is a terminal. Throws UsageError, std::runtime_error.
std::filesystem::path pull(const HubSettings& settings, const HubName& name);

}  // namespace reprise::tools
