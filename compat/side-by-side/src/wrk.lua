-- The figures that side-by-side reads: requests, microseconds, latencies in microseconds, errors.
done = function(summary, latency, _)
    local errors = summary.errors
    io.write(string.format("figures %d %d %d %d %d %d\n", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
