"""An engine from outside of the package: Parquet files under the scheme `mirror`, bounded as a cluster does."""
