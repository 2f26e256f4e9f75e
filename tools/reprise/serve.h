// `reprise serve`: the HTTP server in front of the engine.
#pragma once

#include <functional>
#include <memory>

#include "protocol/service.h"
#include "runtime/system.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

using ServiceFactory =
    std::function<std::unique_ptr<protocol::Service>(runtime::System&, const ServeConfig&)>;

// Serves until SIGINT, SIGTERM or SIGHUP and returns the exit status of the program: 0 after a signal, 1 when the
// address cannot be listened on. A second SIGINT or SIGTERM ends the program at once; SIGHUP does nothing where it
// was ignored before (nohup). SIGPIPE is ignored. Logs go to stderr, first "listening on http://HOST:PORT/" with the
// real port; the server goes on where nothing reads them.
//
// Runs on the calling thread, which must be the only one yet: it blocks these signals for all that it
// starts. Call it once per process.
int serve(const ServeConfig& config, const ServiceFactory& make_service);

}  // namespace reprise::tools
