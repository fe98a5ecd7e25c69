#!/bin/bash
# Starts an executor in a pod that Spark made: what Spark's own image has as its entry point, for
# ours. Spark says in variables what to start.

set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
packages=$(echo "$root"/venv/lib/python3.*/site-packages)
export SPARK_HOME=$packages/pyspark

# As the driver logs: warnings, as JSON; not several lines for each task.
options=("-Dlog4j2.configurationFile=file://$packages/streaming_jobs/local/spark_log4j2.properties")
for name in "${!SPARK_JAVA_OPT_@}"; do
    options+=("${!name}")
done

# Files that the driver sends are put into the working directory: the image's is read-only.
cd "${SPARK_LOCAL_DIRS%%,*}"
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
